"""Infers a rotary encoding from its outputs for unit vectors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgValueError
from keras_pe.display import Shown
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import RotaryLayout, check_channels

# Largest error of sines and cosines; in bfloat16 it is 2e-3.
_ROUNDING = 5e-3
# Largest leak from channels outside the pair, zero times a number; the slowest pairs have outputs of 1e-7.
_NOTHING = 1e-12
# Radians per position below which a pair does not rotate.
_STILL = 1e-6
# Largest relative error of rates, from powers in float32.
_POWER = 4e-6
# Scatter of angles, in radians, above which positions do not increase by one from row to row.
_BENT = 2e-2
# Largest error of a measured value, in standard errors.
_ERRORS = 16.0
# Largest relative error of a rate that a scaling is inferred from. A scaled pair differs by more.
_RESOLVED = 0.02
# Number of first positions to try.
_MAX_START = 2**12


@dataclass(frozen=True, repr=False)
class RotaryMatch(Shown):
    """Observed properties of a rotary function.

    Attributes:
        layout: As in `RotaryPositionEncoding`, or None if the pairs have another layout.
        pairs: The two input channels and the two output channels of each rotated pair.
        rotary_dim: Number of channels up to the last rotated one, or of the whole layout if it is known.
        direction: 1 if `(1, 0)` rotates towards `(0, 1)`, -1 if it rotates away.
        rates: Radians per position of each pair, in the order of `pairs`.
        start_index: Position of the first row, or None unless exactly one whole position below 4,096 explains it.
        attention_factor: Length of a rotated unit vector.
        rope_type: "default", "linear" or "proportional" if the rates fit, else None.
        base: The base of the rates (`rope_theta`) if they are a geometric sequence.
        factor: Divisor of the positions, or None without one.
        partial_rotary_factor: The share of the pairs that rotate, for "proportional".
        grid_shape: Rows and columns of an image whose positions these are; None for a sequence.
        axis_of_pair: For an image, 0 for each pair that the row rotates and 1 for the column, as in
            `RotaryPositionEncoding`. Models with exchanged axes differ in it. None for a sequence.
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
    partial_rotary_factor: float | None = None
    grid_shape: tuple[int, int] | None = None
    axis_of_pair: tuple[int, ...] | None = None

    def details(self) -> Mapping[str, str]:
        """Returns the properties that a notebook displays, by name."""
        rows = {
            "layout": self.layout or "none of these",
            "channels": str(self.rotary_dim),
            "direction": str(self.direction),
            "start_index": "not found" if self.start_index is None else str(self.start_index),
            "attention_factor": f"{self.attention_factor:.6g}",
            "rope_type": self.rope_type or "not determined by the rates",
        }
        names = ("base", "factor", "partial_rotary_factor")
        numbers = {name: getattr(self, name) for name in names}
        if self.grid_shape and self.axis_of_pair:
            rows["grid"] = "{} x {}".format(*self.grid_shape)
            rows["axis_of_pair"] = ", ".join(map(str, self.axis_of_pair))
        return rows | {name: f"{value:.6g}" for name, value in numbers.items() if value is not None}


def identify_rotary(rotate: Callable[[Any], Any], channels: int, *, length: int = 64) -> RotaryMatch | None:
    """Returns the properties of a rotary function or layer, or None if it does not rotate pairs of channels.

    Args:
        rotate: Takes `(batch, length, 1, channels)` in float32 and returns the rotated array: a layer, or a function
            that also slices, transposes and converts as the layer needs.
        channels: Number of channels of a head.
        length: Number of observed positions. Slow rates are more exact with more positions. For an image it is the
            number of patches, row after row, at least 3 x 3.

    Returns:
        The observed properties. A scaling is named only if the rates prove it. Dynamic NTK is a "default" with another
        base; YaRN, LongRoPE and Llama 3 only have rates. No scaling is named if the relative error of a rate
        exceeds two hundredths, as for slow pairs in narrow types at far positions.

    >>> match = identify_rotary(lambda x: x, 8)
    >>> match is None
    True
    """
    check_channels(channels)
    if channels < 2 or length < 4:
        raise ArgValueError(
            "channels", f"must be at least 2 and `length` at least 4. Received: {channels=}, {length=}."
        )
    unit = np.broadcast_to(np.eye(channels, dtype=np.float32)[:, np.newaxis], (channels, length, channels))
    turned = np.asarray(rotate(np.array(unit[:, :, np.newaxis])), np.float64)
    if turned.shape != (channels, length, 1, channels):
        raise ArgValueError(
            "rotate", f"must return the shape it is given, {(channels, length, 1, channels)}. Received: {turned.shape}."
        )
    pairs = _pairs(turned[:, :, 0])
    if not pairs:
        return None
    points = np.stack([turned[one, :, 0, first] + 1j * turned[one, :, 0, second] for one, _, first, second in pairs])
    factor = float(np.sqrt(np.mean(np.abs(points) ** 2)))
    if np.abs(np.abs(points) - factor).max() > _ROUNDING * factor:
        return None
    turns, grid_shape, axes = _turns(points), None, None
    if (turns.scatter > _BENT).any() and (grid := _grid(points)) is not None:
        turns, grid_shape, axes = grid
    if np.abs(turns.rates).max() < _STILL:
        return None
    direction = 1 if np.sum(turns.rates) > 0 else -1
    turns = turns.in_direction(direction)
    layout, width = _layout(pairs)
    scaling = _scaling(turns, _pairs_of_sequence(pairs, layout, width))
    if axes is not None and scaling["base"] is None:
        scaling = _scaling_of_axes(turns, axes)
    return RotaryMatch(
        layout=layout,
        pairs=tuple(pairs),
        rotary_dim=width,
        direction=direction,
        rates=tuple(turns.rates.tolist()),
        start_index=_start(turns),
        attention_factor=factor,
        **scaling,
        grid_shape=grid_shape,
        axis_of_pair=None if axes is None else tuple(axes.tolist()),
    )


def _pairs(turned: Float64Array) -> list[tuple[int, int, int, int]]:
    """Returns the channels of each rotated pair, `(first, second, output's first, output's second)`, sorted.

    The outputs of a pair's two unit vectors are equal up to order and sign: `(1, 0)` becomes `(cos, sin)`, and
    `(0, 1)` becomes `(-sin, cos)`.
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


def _layout(pairs: list[tuple[int, int, int, int]]) -> tuple[RotaryLayout | None, int]:
    """Returns the layout whose first pairs these are, and its number of channels; None for an unknown layout."""
    count, width = len(pairs), max(max(each) for each in pairs) + 1
    half = {
        "halves": pairs[0][1] - pairs[0][0],
        "interleaved": count,
        "interleaved_to_halves": pairs[0][3] - pairs[0][2],
    }
    expected: dict[RotaryLayout, list[tuple[int, int, int, int]]] = {
        "halves": [(i, i + half["halves"], i, i + half["halves"]) for i in range(count)],
        "interleaved": [(2 * i, 2 * i + 1, 2 * i, 2 * i + 1) for i in range(count)],
        "interleaved_to_halves": [(2 * i, 2 * i + 1, i, i + half["interleaved_to_halves"]) for i in range(count)],
    }
    for layout, each in expected.items():
        if each == pairs and half[layout] >= count:
            return layout, 2 * half[layout]
    return None, width


def _pairs_of_sequence(pairs: list[tuple[int, int, int, int]], layout: RotaryLayout | None, width: int) -> int | None:
    """Returns the number of pairs, including pairs at the end that do not rotate; None if it cannot be inferred."""
    if layout is not None:
        return width // 2
    channels = {channel for each in pairs for channel in each}
    return len(pairs) if max(channels) - min(channels) + 1 == 2 * len(pairs) else None


class _Turns(NamedTuple):
    """The measured rotation of pairs, with its error.

    Attributes:
        rates: Radians per position.
        phases: Radians at the first position.
        scatter: Deviation of the angles from a straight line.
        off: Largest error of the rates.
    """

    rates: Float64Array
    phases: Float64Array
    scatter: Float64Array
    off: Float64Array

    def in_direction(self, direction: int) -> "_Turns":
        """Returns the rotations with the sign of their angles changed if `direction` is -1."""
        return _Turns(direction * self.rates, direction * self.phases, self.scatter, self.off)


def _turns(points: npt.NDArray[np.complex128]) -> _Turns:
    """Returns the rotation of points on circles, by a straight line through their angles."""
    angles = np.unwrap(np.angle(points), axis=1)
    where = np.arange(points.shape[1]) - (points.shape[1] - 1) / 2
    rates = angles @ where / (where @ where)
    middles = angles.mean(axis=1)
    away = angles - middles[:, np.newaxis] - np.multiply.outer(rates, where)
    scatter = np.sqrt((away**2).sum(axis=1) / (points.shape[1] - 2))
    off = _ERRORS * scatter / np.sqrt(where @ where) + _POWER * np.abs(rates)
    return _Turns(rates, middles + rates * where[0], scatter, off)


def _grid(points: npt.NDArray[np.complex128]) -> tuple[_Turns, tuple[int, int], npt.NDArray[np.intp]] | None:
    """Returns the rotation of pairs by rows or columns of an image, its shape, and the axis of each pair, or None."""
    count, length = points.shape
    for height in range(3, length // 3 + 1):
        if length % height:
            continue
        shape = height, length // height
        image = points.reshape(count, *shape)
        # A pair that the row rotates is constant along all columns, and a pair of the column along all rows.
        moves = np.stack([np.abs(image - image.mean(axis=2 - axis, keepdims=True)).max(axis=(1, 2)) for axis in (0, 1)])
        if (moves.min(axis=0) > 2 * _ROUNDING).any():
            continue
        axes = moves.argmin(axis=0)
        of_axis = [_turns(image.mean(axis=2 - axis)) for axis in (0, 1)]
        turns = _Turns(*(np.where(axes == 0, *both) for both in zip(*of_axis, strict=True)))
        if (turns.scatter <= _BENT).all():
            return turns, shape, axes
    return None


def _start(turns: _Turns) -> int | None:
    """Returns the first position that explains the angles of all pairs, or None unless there is exactly one."""
    positions = np.arange(_MAX_START)
    away = np.multiply.outer(positions, turns.rates) - turns.phases
    away -= 2 * np.pi * np.round(away / (2 * np.pi))
    allowed = np.multiply.outer(positions, turns.off) + _ERRORS * turns.scatter + _POWER
    found = np.flatnonzero((np.abs(away) <= allowed).all(axis=1))
    return int(found[0]) if len(found) == 1 else None


def _scaling(turns: _Turns, count: int | None) -> dict[str, Any]:
    """Returns the type, base and factors of a geometric sequence of `count` rates, or None for each."""
    rates, off = turns.rates, turns.off
    found_scaling: dict[str, Any] = dict.fromkeys(("rope_type", "base", "factor"))
    if count is None or len(rates) < 2 or (off > _RESOLVED * rates).any():
        return found_scaling
    index = np.arange(len(rates))
    slope, level = np.polyfit(index, np.log(rates), 1, w=rates / off)
    if (np.abs(np.exp(level + slope * index) - rates) > off).any():
        return found_scaling
    factor = float(np.exp(-level))
    found_scaling |= {"base": float(np.exp(-slope * count)), "factor": None if abs(factor - 1) < 1e-3 else factor}
    if len(rates) < count:
        return {**found_scaling, "rope_type": "proportional", "partial_rotary_factor": len(rates) / count}
    return {**found_scaling, "rope_type": "default" if found_scaling["factor"] is None else "linear"}


def _scaling_of_axes(turns: _Turns, axes: npt.NDArray[np.intp]) -> dict[str, Any]:
    """Returns the `_scaling` of the pairs of each axis if all axes agree, or None for each of its values."""
    found_scaling = [
        _scaling(_Turns(*(each[axes == axis] for each in turns)), int((axes == axis).sum())) for axis in set(axes)
    ]
    bases = [each["base"] for each in found_scaling]
    same = len({(each["rope_type"], each["factor"] is None) for each in found_scaling}) == 1 and None not in bases
    return (
        found_scaling[0] if same and np.allclose(bases, bases[0], rtol=_RESOLVED) else dict.fromkeys(found_scaling[0])
    )
