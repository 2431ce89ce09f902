"""The signals of all conventions: the timescale and wave of each column, and the names of each signal."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.definition import Convention
from keras_pe.signal.coordinates import Coordinates
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import Layout, column_order, join_axes

Flatten = Literal["rows", "columns"]
USUAL = 1.0e4  # The default longest timescale of nearly all conventions.
# The float32 formula has a relative error of 1e-6 in each rate, and of 2e-7 in each angle.
RATE_ERROR, ANGLE_ERROR = 1e-6, 2e-7


@dataclass(frozen=True, eq=False)
class Signal:
    """A schedule of timescales in one layout.

    Attributes:
        names: The conventions that give these values.
        timescales_of: The conventions that have these timescales, in any layout or order of axes.
        layout: See `keras_pe.timing_signal`.
        timescales: In positions, for each axis.
        max_timescale: The 10,000 of the formula.
        timescale_index: `(channels,)`, index of the timescale of each column, -1 for a column of zeros.
        is_cosine: `(channels,)`, whether a column is a cosine.
        axis: `(channels,)`, 0 for a column of the slow axis of an image, 1 for the fast axis; 0 in a sequence.
        slow_first: Whether the first block of columns belongs to the slow axis.
    """

    names: tuple[str, ...]
    timescales_of: tuple[str, ...]
    layout: Layout
    timescales: Float64Array
    max_timescale: float
    timescale_index: npt.NDArray[np.intp]
    is_cosine: npt.NDArray[np.bool_]
    axis: npt.NDArray[np.intp]
    slow_first: bool = True

    @property
    def like(self) -> Convention:
        """A convention with this schedule and, for images, with these blocks and coordinates."""
        return CONVENTIONS[self.timescales_of[0]]

    @property
    def coordinates(self) -> Coordinates | None:
        """The coordinates of an image; None if positions are counted."""
        coordinates: Coordinates | None = self.like.grid.get("coordinates")
        return coordinates

    @cached_property
    def columns(self) -> Float64Array:
        """Timescale of each column, infinite for a column of zeros: `(channels,)`."""
        return np.append(self.timescales, np.inf)[self.timescale_index]

    @cached_property
    def pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Columns of the sines, and columns of their cosines, in the order of the timescales."""
        order = np.lexsort((self.is_cosine, self.timescale_index, self.axis))
        sines, cosines = order[:-1], order[1:]
        same = (self.timescale_index[sines] == self.timescale_index[cosines]) & (self.axis[sines] == self.axis[cosines])
        return sines[same], cosines[same]

    @cached_property
    def rates(self) -> Float64Array:
        """Radians per position of each pair."""
        rates: Float64Array = 1.0 / self.columns[self.pairs[0]]
        return rates

    def points(self, rows: Float64Array) -> npt.NDArray[np.complex128]:
        """Returns the pairs of columns as points, cosine + i sine: `(rows, pairs)`."""
        sines, cosines = self.pairs
        return rows[:, cosines] + 1j * rows[:, sines]

    def at(self, positions: npt.NDArray[Any]) -> Float64Array:
        """Returns the signal at positions `(rows,)`, or `(rows, 2)` of the slow and the fast axis of an image."""
        angles = (positions[:, np.newaxis] if positions.ndim == 1 else positions[:, self.axis]) / self.columns
        values: Float64Array = np.empty_like(angles)
        for wave, columns in ((np.sin, ~self.is_cosine), (np.cos, self.is_cosine)):
            values[:, columns] = wave(angles[:, columns])
        return values

    def formula_error(self) -> Float64Array:
        """Returns the error of the float32 formula at position 1 for each column. The error grows with the position."""
        rates = 1.0 / self.columns
        if self.like.axes > 1:  # An image's positions are rounded too.
            return RATE_ERROR * rates
        return np.minimum(RATE_ERROR * rates, ANGLE_ERROR * np.maximum(1.0, rates))

    @cached_property
    def powers(self) -> tuple[Float64Array, Float64Array]:
        """Exponents `e` and factors `c` of the timescales `c * L**e` of a sequence."""
        low, high = (self.like.timescales(len(self.timescale_index), longest) for longest in (10.0, 100.0))
        exponents = np.log10(high / low)
        return exponents, low / 10.0**exponents

    def with_longest(self, longest: float) -> "Signal":
        """Returns the signal of a sequence with another longest timescale."""
        scales = self.like.timescales(len(self.timescale_index), longest)
        return replace(self, timescales=scales, max_timescale=longest)


@lru_cache(maxsize=8)
def sequence_signals(channels: int, distances: bool = False) -> tuple[Signal, ...]:
    """Returns every schedule of this width in every layout, including those of distances if `distances` is true."""
    schedules: dict[bytes, tuple[Float64Array, list[str]]] = {}
    for name, each in sorted(CONVENTIONS.items(), key=lambda named: not named[1].descending):
        if each.axes == 1 and (each.whole_positions or (distances and each.descending)) and each.has(channels):
            scales = each.timescales(channels)
            schedules.setdefault(np.log(scales).round(9).tobytes(), (scales, []))[1].append(name)
    signals: dict[tuple[int, bytes], Signal] = {}
    for number, (scales, names) in enumerate(schedules.values()):
        count, own = len(scales), CONVENTIONS[names[0]].layout
        orders = {layout: column_order(count, channels, layout) for layout in get_args(Layout)}
        for layout in sorted(orders, key=lambda layout: (layout != own, layout)):
            order = orders[layout]
            same = tuple(name for name in names if np.array_equal(orders[CONVENTIONS[name].layout], order))
            timescale_index, is_cosine = (
                np.where(order < 2 * count, order % count, -1),
                (order >= count) & (order < 2 * count),
            )
            new = Signal(same, tuple(names), layout, scales, USUAL, timescale_index, is_cosine, np.zeros(channels, int))
            signals.setdefault((number, order.tobytes()), new)  # Two columns fit two layouts.
    return tuple(signals.values())


def flattening(each: Convention) -> Flatten:
    """Returns whether a convention flattens an image by rows or by columns."""
    flatten: Flatten = each.grid.get("flatten", "rows")
    return flatten


@lru_cache(maxsize=8)
def image_signals(channels: int) -> tuple[Signal, ...]:
    """Returns the signal of every image convention of this width, and the signal with exchanged axes."""
    signals: dict[tuple[object, ...], Signal] = {}
    for name, each in CONVENTIONS.items():
        if each.axes != 2 or each.schedule is None or not each.has(channels):
            continue
        width, scales = channels // 2, each.timescales(channels)
        labels = join_axes([np.arange(width), width + np.arange(width)], each.layout, each.grid.get("blocks", "axis"))
        timescale_index = column_order(len(scales), width, each.layout)[labels % width]
        # If the image is flattened by columns, the last axis is the slow one.
        own = each.grid.get("reverse_axes", False) == (flattening(each) == "columns")
        for slow_first in (own, not own):
            axis = labels // width if slow_first else 1 - labels // width
            place = timescale_index % len(scales), timescale_index >= len(scales), axis
            new = Signal((), (name,), each.layout, scales, each.max_timescale, *place, slow_first)
            columns = axis.tobytes(), new.is_cosine.tobytes(), new.columns.round(9).tobytes()
            key = *columns, each.start_index, new.coordinates
            known = signals.get(key, new)
            names = (*known.names, name) if slow_first == own else known.names
            others = tuple(dict.fromkeys((*known.timescales_of, name)))
            signals[key] = replace(known, names=names, timescales_of=others)
    return tuple(signals.values())
