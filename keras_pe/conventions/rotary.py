"""Infers a rotary encoding from its results on unit vectors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_pe.shown import Shown
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import RotaryLayout, check_channels

# By what sines and cosines may be off: those in bfloat16 by 2e-3.
_ROUNDING = 5e-3
# Largest leak from channels outside the pair, zero times a number; the slowest pairs get 1e-7.
_NOTHING = 1e-12
# Radians per position below which nothing turns with the position.
_STILL = 1e-6
# By what rates may be off, relative to them: powers in float32.
_POWER = 4e-6
# Scatter of angles, in radians, above which positions do not grow by one from row to row.
_BENT = 2e-2
# Standard errors by which what is measured may be off.
_ERRORS = 16.0
# Largest relative error of a rate from which a scaling is inferred: a stretched pair differs by more.
_RESOLVED = 0.02
# First positions that are looked through.
_MAX_START = 2**12


@dataclass(frozen=True, repr=False)
class RotaryMatch(Shown):
    """Observed properties of a rotary function.

    Attributes:
        layout: As in `RotaryPositionEncoding`, or None if its pairs have another layout.
        pairs: The two input channels of each pair that turns, and the two that its results stand in.
        rotary_dim: Number of channels that turn, or stand in the way of those that do.
        direction: 1 where `(1, 0)` turns towards `(0, 1)`, -1 where it turns away.
        rates: Radians per position of each pair, in the order of `pairs`.
        start_index: Position of the first row, or None where not one whole position below 4,096 alone explains it.
        attention_factor: Length of a turned unit vector.
        rope_type: "default", "linear" or "proportional" if the rates fit, else None.
        base: The base of the rates (`rope_theta`) where they are a geometric sequence.
        factor: Divisor of the positions; 1 without one.
        partial_rotary_factor: The part of the pairs that turns, for "proportional": the others stay beside them.
        grid_shape: Rows and columns of an image whose positions these are; None for a sequence.
        axis_of_pair: In an image, 0 for each pair that the row rotates and 1 for the column, as in
            `RotaryPositionEncoding`; models with exchanged axes differ in it. None for a sequence.
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
        """Returns what a notebook shows, by name."""
        said = {
            "layout": self.layout or "none of these",
            "channels": str(self.rotary_dim),
            "direction": str(self.direction),
            "start_index": "not found" if self.start_index is None else str(self.start_index),
            "attention_factor": f"{self.attention_factor:.6g}",
            "rope_type": self.rope_type or "not told by the rates",
        }
        names = ("base", "factor", "partial_rotary_factor")
        numbers = {name: getattr(self, name) for name in names}
        if self.grid_shape and self.axis_of_pair:
            said["grid"] = "{} x {}".format(*self.grid_shape)
            said["axis_of_pair"] = ", ".join(map(str, self.axis_of_pair))
        return said | {name: f"{value:.6g}" for name, value in numbers.items() if value is not None}


def identify_rotary(rotate: Callable[[Any], Any], channels: int, *, length: int = 64) -> RotaryMatch | None:
    """Returns what a rotary function or layer does, or None where it does not turn pairs of channels.

    Args:
        rotate: Takes `(batch, length, 1, channels)` in float32 and returns the same turned: a layer, or a function of
            one that slices, transposes and converts as that needs.
        channels: Channels of a head.
        length: Number of observed positions. Slow rates are more exact with more positions. For an image it is the
            number of its patches, row after row, at least 3 x 3.

    Returns:
        The observed properties. A scaling is named only if the rates prove it: dynamic NTK is a "default" with another
        base, and YaRN, LongRoPE and Llama 3 have their rates only. No scaling is named if the error of slow pairs
        exceeds two hundredths, as in narrow types at far positions.

    >>> match = identify_rotary(lambda x: x, 8)
    >>> match is None
    True
    """
    check_channels(channels)
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


def _layout(pairs: list[tuple[int, int, int, int]]) -> tuple[RotaryLayout | None, int]:
    """Returns the layout whose first pairs these are, all or some of them, and how many channels it has."""
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
    """Returns how many pairs the sequence of rates has, those that stay at its end with them; None where none tells."""
    if layout is not None:
        return width // 2
    channels = {channel for each in pairs for channel in each}
    return len(pairs) if max(channels) - min(channels) + 1 == 2 * len(pairs) else None


class _Turns(NamedTuple):
    """How pairs turn, each measured to so much.

    Attributes:
        rates: Radians per position.
        phases: Radians at the first one.
        scatter: Deviation of the angles from a straight line.
        off: By what the rates may be off.
    """

    rates: Float64Array
    phases: Float64Array
    scatter: Float64Array
    off: Float64Array

    def in_direction(self, direction: int) -> "_Turns":
        """Returns the turns as one sees them who looks from the other side, or as they are."""
        return _Turns(direction * self.rates, direction * self.phases, self.scatter, self.off)


def _turns(points: npt.NDArray[np.complex128]) -> _Turns:
    """Returns how points on circles turn: a straight line through the angles of each."""
    angles = np.unwrap(np.angle(points), axis=1)
    where = np.arange(points.shape[1]) - (points.shape[1] - 1) / 2
    rates = angles @ where / (where @ where)
    middles = angles.mean(axis=1)
    away = angles - middles[:, np.newaxis] - np.multiply.outer(rates, where)
    scatter = np.sqrt((away**2).sum(axis=1) / (points.shape[1] - 2))
    off = _ERRORS * scatter / np.sqrt(where @ where) + _POWER * np.abs(rates)
    return _Turns(rates, middles + rates * where[0], scatter, off)


def _grid(points: npt.NDArray[np.complex128]) -> tuple[_Turns, tuple[int, int], npt.NDArray[np.intp]] | None:
    """Returns how pairs turn by the rows or the columns of an image, its shape, and the axis of each pair, or None."""
    count, length = points.shape
    for height in range(3, length // 3 + 1):
        if length % height:
            continue
        shape = height, length // height
        image = points.reshape(count, *shape)
        # A pair that turns by its row is the same in all columns, and the other way round.
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
    """Returns the one first position that explains the angles of all pairs, or None."""
    positions = np.arange(_MAX_START)
    away = np.multiply.outer(positions, turns.rates) - turns.phases
    away -= 2 * np.pi * np.round(away / (2 * np.pi))
    allowed = np.multiply.outer(positions, turns.off) + _ERRORS * turns.scatter + _POWER
    found = np.flatnonzero((np.abs(away) <= allowed).all(axis=1))
    return int(found[0]) if len(found) == 1 else None


def _scaling(turns: _Turns, count: int | None) -> dict[str, Any]:
    """Returns type, base and factors of a geometric sequence of so many rates, or None of each."""
    rates, off = turns.rates, turns.off
    told: dict[str, Any] = dict.fromkeys(("rope_type", "base", "factor"))
    if count is None or len(rates) < 2 or (off > _RESOLVED * rates).any():
        return told
    index = np.arange(len(rates))
    slope, level = np.polyfit(index, np.log(rates), 1, w=rates / off)
    if (np.abs(np.exp(level + slope * index) - rates) > off).any():
        return told
    factor = float(np.exp(-level))
    told |= {"base": float(np.exp(-slope * count)), "factor": None if abs(factor - 1) < 1e-3 else factor}
    if len(rates) < count:
        return {**told, "rope_type": "proportional", "partial_rotary_factor": len(rates) / count}
    return {**told, "rope_type": "default" if told["factor"] is None else "linear"}


def _scaling_of_axes(turns: _Turns, axes: npt.NDArray[np.intp]) -> dict[str, Any]:
    """Returns what `_scaling` does of the pairs of each axis, if it is the same for all axes, or None of each."""
    told = [_scaling(_Turns(*(each[axes == axis] for each in turns)), int((axes == axis).sum())) for axis in set(axes)]
    bases = [each["base"] for each in told]
    same = len({(each["rope_type"], each["factor"] is None) for each in told}) == 1 and None not in bases
    return told[0] if same and np.allclose(bases, bases[0], rtol=_RESOLVED) else dict.fromkeys(told[0])
