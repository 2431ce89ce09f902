"""What a rotary encoding does, told by what it makes of unit vectors; and weights moved from one layout to another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from keras_pe.shown import Shown
from keras_pe.signal.layouts import RotaryLayout
from keras_pe.signal.timescales import Float64Array

# By what sines and cosines may be off: those in bfloat16 by 2e-3.
_ROUNDING = 5e-3
# What a channel gets of one that is not its pair, zero times a number; the slowest pairs get 1e-7.
_NOTHING = 1e-12
# First positions that are looked through.
_MAX_START = 2**12


@dataclass(frozen=True, repr=False)
class RotaryMatch(Shown):
    """What a rotary function was seen to do.

    Attributes:
        layout: As in `RotaryPositionEncoding`, or None where its pairs are no layout of these.
        pairs: The two input channels of each pair, and the two that its results stand in.
        rotary_dim: Number of channels that turn, or stand in the way of those that do.
        direction: 1 where `(1, 0)` turns towards `(0, 1)`, -1 where it turns away.
        rates: Radians per position of each pair, in the order of `pairs`.
        start_index: Position of the first row, or None where no whole position below 4,096 explains it.
        attention_factor: Length of a turned unit vector.
        rope_type: "default" or "linear" where the rates are such, or else None.
        base: The base of the rates (`rope_theta`) where they are a geometric sequence.
        factor: What positions are divided by, for "linear".
    """

    layout: RotaryLayout | None
    pairs: tuple[tuple[int, int, int, int], ...]
    rotary_dim: int
    direction: int
    rates: tuple[float, ...]
    start_index: int | None
    attention_factor: float
    rope_type: str | None
    base: float | None
    factor: float | None

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        said = {
            "layout": self.layout or "none of these",
            "channels": str(self.rotary_dim),
            "direction": str(self.direction),
            "start_index": "not found" if self.start_index is None else str(self.start_index),
            "attention_factor": f"{self.attention_factor:.6g}",
            "rope_type": self.rope_type or "not told by the rates",
        }
        numbers = {"base": self.base, "factor": self.factor}
        return said | {name: f"{value:.6g}" for name, value in numbers.items() if value is not None}


def identify_rotary(rotate: Callable[[Any], Any], channels: int, *, length: int = 64) -> RotaryMatch | None:
    """Returns what a rotary function or layer does, or None where it does not turn pairs of channels.

    Args:
        rotate: Takes `(batch, length, 1, channels)` in float32 and returns the same turned: a layer, or a function of
            one that slices, transposes and converts as that needs.
        channels: Channels of a head.
        length: Number of positions that are looked at. Slow rates are told the better the more there are.

    Returns:
        What was seen. Of scalings only those are named that the rates prove: dynamic NTK is a "default" with another
        base; YaRN, LongRoPE and Llama 3 are told by their rates alone.

    >>> match = identify_rotary(lambda x: x, 8)
    >>> match is None
    True
    """
    if channels < 2 or length < 4:
        raise ValueError(f"`channels` must be at least 2 and `length` at least 4. Received: {channels=}, {length=}.")
    unit = np.broadcast_to(np.eye(channels, dtype=np.float32)[:, np.newaxis], (channels, length, channels))
    turned = np.asarray(rotate(np.array(unit[:, :, np.newaxis])), np.float64)
    if turned.shape != (channels, length, 1, channels):
        raise ValueError(
            f"`rotate` must return the shape it is given, {(channels, length, 1, channels)}. Received: {turned.shape}."
        )
    pairs = _pairs(turned[:, :, 0])
    if not pairs:
        return None
    points = np.stack([turned[one, :, 0, first] + 1j * turned[one, :, 0, second] for one, _, first, second in pairs])
    factor = float(np.sqrt(np.mean(np.abs(points) ** 2)))
    if np.abs(np.abs(points) - factor).max() > _ROUNDING * factor:
        return None
    rates, phases = _turns(points)
    direction = 1 if np.sum(rates) > 0 else -1
    width = max(max(each) for each in pairs) + 1
    kind, base, stretch = _scaling(direction * rates)
    return RotaryMatch(
        layout=_layout(pairs, width),
        pairs=tuple(pairs),
        rotary_dim=width,
        direction=direction,
        rates=tuple((direction * rates).tolist()),
        start_index=_start(direction * rates, direction * phases),
        attention_factor=factor,
        rope_type=kind,
        base=base,
        factor=stretch,
    )


def permute_rotary_weights(
    weights: npt.ArrayLike, source: RotaryLayout, target: RotaryLayout, *, head_dim: int, rotary_dim: int | None = None
) -> npt.NDArray[Any]:
    """Returns the weights of a query or key projection for another rotary layout; all scores stay as they are.

    Both projections must be moved: Meta's checkpoints are "interleaved", Hugging Face's of the same models "halves".

    Args:
        weights: Kernel or bias whose last axis holds the channels of a head, `EinsumDense`'s `(inputs, heads,
            head_dim)`, or those of all heads one after the other, `Dense`'s `(inputs, heads * head_dim)`. PyTorch's
            `Linear` has them on its first axis: hand in `weight.T`.
        source: Layout that the weights were trained with.
        target: Layout that they are to be used with.
        head_dim: Channels of a head.
        rotary_dim: How many of them turn; None for all.

    Raises:
        ValueError: If a layout is unknown, or the last axis is no multiple of `head_dim`.

    >>> permute_rotary_weights(np.arange(6), "interleaved", "halves", head_dim=6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    held = np.asarray(weights)
    width = head_dim if rotary_dim is None else rotary_dim
    if not held.ndim or held.shape[-1] % head_dim or width % 2 or not 2 <= width <= head_dim:
        raise ValueError(
            "`head_dim` must divide the last axis of `weights`, and `rotary_dim` must be even and at most `head_dim`. "
            f"Received: weights.shape={held.shape}, {head_dim=}, {rotary_dim=}."
        )
    order = np.arange(head_dim)
    order[_input_channels(target, width)] = _input_channels(source, width)
    by_head = held.reshape(*held.shape[:-1], -1, head_dim)
    return by_head[..., order].reshape(held.shape)


def _input_channels(layout: RotaryLayout, width: int) -> npt.NDArray[np.intp]:
    """Returns the first channels of all pairs, then the second ones."""
    if layout not in get_args(RotaryLayout):
        raise ValueError(f"Unknown layout {layout!r}. Choose one of: {', '.join(get_args(RotaryLayout))}.")
    order = np.arange(width)
    return order if layout == "halves" else np.concatenate([order[::2], order[1::2]])


def _pairs(turned: Float64Array) -> list[tuple[int, int, int, int]]:
    """Returns the channels of each pair that turns, `(first, second, its results' first, second)`, sorted.

    The result of a unit vector's own direction is the one that the other channel of the pair gets with the other sign:
    `(1, 0)` becomes `(cos, sin)`, `(0, 1)` becomes `(-sin, cos)`.
    """
    moves = np.abs(turned).max(axis=1) > _NOTHING
    pairs = []
    for one in range(len(turned)):
        outputs = np.flatnonzero(moves[one])
        others = [other for other in range(one + 1, len(turned)) if np.array_equal(moves[other], moves[one])]
        if len(outputs) != 2 or len(others) != 1:
            continue
        other = others[0]
        first, second = (int(each) for each in outputs)
        scale = np.abs(turned[one]).max()
        straight = np.abs(turned[one, :, first] - turned[other, :, second]).max()
        across = np.abs(turned[one, :, second] + turned[other, :, first]).max()
        if max(straight, across) <= _ROUNDING * scale:
            pairs.append((one, other, first, second))
    return pairs


def _layout(pairs: list[tuple[int, int, int, int]], width: int) -> RotaryLayout | None:
    half = width // 2
    expected: dict[RotaryLayout, list[tuple[int, int, int, int]]] = {
        "halves": [(i, i + half, i, i + half) for i in range(half)],
        "interleaved": [(2 * i, 2 * i + 1, 2 * i, 2 * i + 1) for i in range(half)],
        "interleaved_to_halves": [(2 * i, 2 * i + 1, i, i + half) for i in range(half)],
    }
    found = [layout for layout, each in expected.items() if each == pairs]
    return found[0] if found else None


def _turns(points: npt.NDArray[np.complex128]) -> tuple[Float64Array, Float64Array]:
    """Returns the radians per position, and at the first one, of points on circles: a straight line through angles."""
    angles = np.unwrap(np.angle(points), axis=1)
    where = np.arange(points.shape[1]) - (points.shape[1] - 1) / 2
    rates = angles @ where / (where @ where)
    return rates, angles.mean(axis=1) + rates * where[0]


def _start(rates: Float64Array, phases: Float64Array) -> int | None:
    away = np.multiply.outer(np.arange(_MAX_START), rates) - phases
    away -= 2 * np.pi * np.round(away / (2 * np.pi))
    off = np.abs(away).max(axis=1)
    best = int(np.argmin(off))
    # Rates are known to a part of the rounding, which counts once for each position before the first.
    return best if off[best] <= _ROUNDING * (1 + best / 64) else None


def _scaling(rates: Float64Array) -> tuple[str | None, float | None, float | None]:
    """Returns type, base and factor of a geometric sequence of rates, or None of each."""
    if (rates <= 0).any() or len(rates) < 2:
        return None, None, None
    index = np.arange(len(rates))
    # The rates are known equally well in radians, so their logarithms with weight rate**2.
    slope, level = np.polyfit(index, np.log(rates), 1, w=rates)
    if np.abs(np.exp(level + slope * index) - rates).max() > 1e-4 * rates.max():
        return None, None, None
    base, factor = float(np.exp(-slope * len(rates))), float(np.exp(-level))
    return ("default", base, None) if abs(factor - 1) < 1e-3 else ("linear", base, factor)
