"""The rotation rates of rotary encodings, and their scaling rules for long texts, in float64 NumPy.

Parameters have the names of Hugging Face's configurations (transformers 5.23.0, modeling_rope_utils.py).
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.display import did_you_mean
from keras_pe.signal.formula import Float64Array, check_number, check_timescales


class RopeScaling(NamedTuple):
    """The effect of a scaling on a rotary encoding.

    Attributes:
        timescales: `(channels // 2,)`, positions per radian; infinite where a pair of channels does not turn.
        attention_factor: Factor of queries and keys.
        growth: `(channels // 2,)`, the logarithm of what queries are multiplied by, and keys divided, for each position
            more; None where nothing is.
    """

    timescales: Float64Array
    attention_factor: float = 1.0
    growth: Float64Array | None = None

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of a scaling that gives these timescales and this factor, without the growth."""
        return {
            "rope_type": "explicit",
            "timescales": self.timescales.tolist(),
            "attention_factor": self.attention_factor,
        }

    def __repr__(self) -> str:
        scales = self.timescales
        ends = f"{len(scales)} timescales from {scales[0]:.6g} to {scales[-1]:.6g}"
        return f"<{type(self).__name__}: {ends}, attention_factor {self.attention_factor:.6g}>"


def rope_timescales(rope_type: str, channels: int, rope_theta: float = 1.0e4, **parameters: Any) -> RopeScaling:
    """Returns the timescales of a rotary encoding, by the name and the parameters of Hugging Face's configurations.

    Args:
        rope_type: One of "default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "xpos" and
            "explicit", which needs `timescales`.
        channels: Number of rotated channels, which is even; for "proportional" the number of channels of a head.
        rope_theta: Base of the geometric sequence of rates, `rope_theta ** (-2 * i / channels)`.
        **parameters: Parameters of this type, by their names in the configurations; None stands for the default.

    Raises:
        ValueError: If the type is unknown, or a parameter is missing, not of this type or out of its range.

    >>> rope_timescales("linear", 4, factor=8.0).timescales
    array([  8., 800.])
    """
    if isinstance(channels, bool) or not isinstance(channels, int | np.integer) or channels < 2 or channels % 2:
        raise ArgValueError("channels", f"must be an even number of at least 2. Received: channels={channels!r}.")
    check_number("rope_theta", rope_theta)
    given = check_parameters(rope_type, **parameters)
    return scaling_function(rope_type)(int(channels), float(rope_theta), **given)


def check_parameters(rope_type: str, **parameters: Any) -> dict[str, Any]:
    """Returns the passed parameters of a scaling, or raises if one is missing or unknown."""
    known = scaling_parameters(rope_type)
    given = {name: value for name, value in parameters.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            takes = f"It takes {', '.join(f'`{each}`' for each in known)}." if known else "It has no parameters."
            raise ArgValueError(name, f"must be a parameter of {rope_type!r}. {takes} Received: {name}={value!r}.")
    for each in known.values():
        if each.name in given:
            _check_value(each, given[each.name])
        elif each.default is inspect.Parameter.empty:
            raise ValueError(f"`{each.name}` must be given for {rope_type!r}. {_REASONS.get(each.name, '')}".strip())
    return given


@cache
def scaling_parameters(rope_type: str) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters of a `rope_type` by name, or raises ValueError with the nearest name."""
    return dict([*inspect.signature(scaling_function(rope_type)).parameters.items()][2:])


def _check_value(parameter: inspect.Parameter, value: Any) -> None:
    """Raises unless the value of a parameter is a truth value, a list of positive numbers or one, as it asks for."""
    name = parameter.name
    if parameter.annotation is bool:
        if not isinstance(value, bool):
            raise ArgTypeError(name, f"must be True or False. Received: {name}={value!r}.")
    elif parameter.annotation == Sequence[float]:
        check_timescales(value, name, may_be_infinite=name == "timescales")
    elif value != 0 or not name.startswith("mscale"):  # a weight of 0 is one that is left out
        check_number(name, value)


def scaling_function(rope_type: str) -> Callable[..., RopeScaling]:
    """Returns the function of a `rope_type`, or raises ValueError with the nearest name."""
    if rope_type in _SCALINGS:
        return _SCALINGS[rope_type]
    hint = did_you_mean(rope_type, _SCALINGS)
    raise ValueError(f"Unknown `rope_type` {rope_type!r}. Choose one of: {', '.join(_SCALINGS)}.{hint}")


def _default(channels: int, rope_theta: float) -> RopeScaling:
    return RopeScaling(_timescales(channels, rope_theta))


def _linear(channels: int, rope_theta: float, *, factor: float) -> RopeScaling:
    """Positions divided by `factor`: position interpolation."""
    return RopeScaling(_timescales(channels, rope_theta) * factor)


def _dynamic(
    channels: int, rope_theta: float, *, factor: float, max_position_embeddings: float, length: float
) -> RopeScaling:
    """NTK-aware: a larger base, chosen by how far `length` exceeds what the model was trained on."""
    if channels == 2:
        return _default(channels, rope_theta)  # its only rate is 1 under any base
    stretch = factor * max(length, max_position_embeddings) / max_position_embeddings - (factor - 1)
    return RopeScaling(_timescales(channels, rope_theta * stretch ** (channels / (channels - 2))))


def _yarn(
    channels: int,
    rope_theta: float,
    *,
    original_max_position_embeddings: float,
    factor: float | None = None,
    max_position_embeddings: float | None = None,
    attention_factor: float | None = None,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    truncate: bool = True,
) -> RopeScaling:
    """Slow pairs interpolated as by "linear", fast ones left as they are, a ramp between; and a temperature."""
    factor = _stretch(factor, max_position_embeddings, original_max_position_embeddings)
    if rope_theta <= 1 or beta_fast < beta_slow:
        raise ArgValueError(
            "rope_theta",
            "must be above 1 for 'yarn', and `beta_fast` at least `beta_slow`. "
            f"Received: {rope_theta=}, {beta_fast=}, {beta_slow=}.",
        )

    def pair_of_turns(turns: float) -> float:
        """Returns which pair makes so many turns within the original length."""
        wavelengths = original_max_position_embeddings / (2 * math.pi * turns)
        return channels * math.log(wavelengths) / (2 * math.log(rope_theta))

    def temperature(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    low, high = pair_of_turns(beta_fast), pair_of_turns(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, channels - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(channels // 2) - low) / (high - low), 0.0, 1.0)
    rates = 1.0 / _timescales(channels, rope_theta)
    if attention_factor is None:
        attention_factor = (
            temperature(mscale) / temperature(mscale_all_dim) if mscale and mscale_all_dim else temperature(1.0)
        )
    return RopeScaling(1.0 / (rates / factor * ramp + rates * (1.0 - ramp)), float(attention_factor))


def _longrope(
    channels: int,
    rope_theta: float,
    *,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_position_embeddings: float,
    length: float,
    factor: float | None = None,
    max_position_embeddings: float | None = None,
    attention_factor: float | None = None,
) -> RopeScaling:
    """A factor of its own for each pair: one list up to the original length, another beyond."""
    original = original_max_position_embeddings
    factor = _stretch(1.0 if attention_factor else factor, max_position_embeddings, original)
    factors = {"long_factor": long_factor, "short_factor": short_factor}
    for name, listed in factors.items():
        _check_count(name, listed, channels)
    chosen = factors["long_factor" if length > original else "short_factor"]
    if attention_factor is None and factor > 1 and original <= 1:
        raise ArgValueError(
            "original_max_position_embeddings",
            "must be above 1 for 'longrope', or `attention_factor` be given. "
            f"Received: original_max_position_embeddings={original}.",
        )
    if attention_factor is None:
        attention_factor = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return RopeScaling(_timescales(channels, rope_theta) * np.asarray(chosen, np.float64), float(attention_factor))


def _explicit(
    channels: int, rope_theta: float, *, timescales: Sequence[float], attention_factor: float | None = None
) -> RopeScaling:
    """A timescale of its own for each pair; an infinite one keeps its pair still."""
    _check_count("timescales", timescales, channels)
    return RopeScaling(np.asarray(timescales, np.float64), 1.0 if attention_factor is None else float(attention_factor))


def _llama3(
    channels: int,
    rope_theta: float,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: float,
) -> RopeScaling:
    """Interpolates slow pairs and keeps fast ones, by their wavelengths, with a blend between, if any."""
    if low_freq_factor > high_freq_factor:
        raise ArgValueError(
            "low_freq_factor", f"must be at most `high_freq_factor`. Received: {low_freq_factor=}, {high_freq_factor=}."
        )
    timescales = _timescales(channels, rope_theta)
    turns = original_max_position_embeddings / (2 * math.pi * timescales)
    kept = np.interp(turns, [low_freq_factor, high_freq_factor], [0.0, 1.0])
    return RopeScaling(1.0 / ((1.0 - kept) / (timescales * factor) + kept / timescales))


def _proportional(
    channels: int, rope_theta: float, *, partial_rotary_factor: float = 1.0, factor: float = 1.0
) -> RopeScaling:
    """The first part of the pairs turns as if all did; the others, which stay beside them, do not turn."""
    if partial_rotary_factor > 1:
        raise ArgValueError("partial_rotary_factor", f"must be at most 1. Received: {partial_rotary_factor=}.")
    timescales = _timescales(channels, rope_theta) * factor
    timescales[int(partial_rotary_factor * channels // 2) :] = np.inf
    return RopeScaling(timescales)


def _xpos(channels: int, rope_theta: float, *, scale_base: float = 512.0) -> RopeScaling:
    """Usual rates, and scores that shrink with the distance, those of fast pairs most (flash-attn's `scale_base`)."""
    zeta = (np.arange(0, channels, 2) + 0.4 * channels) / (1.4 * channels)
    return RopeScaling(_timescales(channels, rope_theta), growth=np.log(zeta) / scale_base)


_SCALINGS: dict[str, Callable[..., RopeScaling]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
    "xpos": _xpos,
    "explicit": _explicit,
}

ROPE_TYPES = tuple(_SCALINGS)
"""The names of all scalings."""

_REASONS = {
    "length": (
        "The rates depend on the length of the whole text, but a call has only a part of it. Cached keys would be "
        "rotated at other rates than the query. Pass the largest length of the text."
    ),
}


def _timescales(channels: int, rope_theta: float) -> Float64Array:
    timescales: Float64Array = rope_theta ** (np.arange(0, channels, 2, dtype=np.float64) / channels)
    return timescales


def _check_count(name: str, listed: Sequence[float], channels: int) -> None:
    """Raises unless a list has one value for each pair of channels."""
    if len(listed) != channels // 2:
        raise ArgValueError(
            name,
            f"must have one value for two channels: {channels // 2} for {channels} channels. "
            f"Received: {len(listed)} values.",
        )


def _stretch(factor: float | None, most: float | None, original: float) -> float:
    """Returns `factor`, or the ratio of the longest length to the original one that stands for it."""
    if factor is None:
        if most is None:
            raise ArgValueError("factor", "must be given, or `max_position_embeddings`. Received: neither.")
        return most / original
    return factor
