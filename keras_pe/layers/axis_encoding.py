"""The sines and cosines of one axis, made once for all layers that need the same."""

import weakref
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_pe.layers.call_arguments import Positions, resolve_positions
from keras_pe.rotations.composed import ComposedEncoding
from keras_pe.rotations.concrete import count_up, known_length
from keras_pe.rotations.digits import LIMIT
from keras_pe.rotations.fractional import FractionalEncoding
from keras_pe.rotations.lookup import MOST_ROWS, Table, TabulatedEncoding
from keras_pe.signal.coordinates import Coordinates
from keras_pe.signal.formula import sines_and_cosines
from keras_pe.signal.layouts import Layout, assemble


class Axis(NamedTuple):
    """What the encoding of one axis is made from."""

    timescales: tuple[float, ...]
    channels: int
    layout: Layout
    start_index: int
    max_length: int | None
    dtype: str

    @property
    def reach(self) -> tuple[int, int]:
        """The first position in reach, counted from `start_index`, and the first one that no longer is."""
        return reach(self.start_index, self.max_length)


def reach(start_index: int, max_length: int | None) -> tuple[int, int]:
    """Returns the first position in reach, counted from `start_index`, and the first one that no longer is."""
    return (-LIMIT - start_index, LIMIT - start_index) if max_length is None else (0, max_length)


class AxisEncoding:
    """The encoding of one axis: of whole positions, and of fractions."""

    def __init__(self, axis: Axis) -> None:
        scales, channels, layout, start_index, max_length, dtype = axis
        low, high = axis.reach
        arguments = np.asarray(scales, np.float64), channels, layout, start_index, dtype
        self._whole: ComposedEncoding | TabulatedEncoding = (
            TabulatedEncoding(*arguments, max_length)
            if max_length is not None and max_length <= MOST_ROWS
            else ComposedEncoding(*arguments, low, high)
        )
        self._fractional = FractionalEncoding(*arguments, low, high)
        self._axis = axis
        self._rows_at: tuple[Any, Table] = None, Table(np.zeros((0, channels), dtype))

    def signal(self, length: Any, positions: Positions | None) -> Any:
        """Returns the signal of positions, or of a range: `(length, channels)`, or `(batch, length, channels)`."""
        if positions is None:
            return self._whole.range(length)
        if positions.whole is None:
            return self._whole.range(length, positions.start)
        if positions.fraction is None:
            return self._whole.at(positions.whole)
        return self._fractional.at(positions.whole, positions.nearest, positions.fraction)

    def rotations(self, length: Any, positions: Positions | None) -> list[Any]:
        """Returns sines and cosines, `(..., timescales)` each, or both in one where they were made side by side.

        The layout must be one in which all sines stand first.
        """
        if positions is None or positions.fraction is not None or isinstance(self._whole, TabulatedEncoding):
            return [self.signal(length, positions)]
        return self._whole.rotations(length, positions.start, positions.whole)

    def at_coordinates(self, coordinates: Coordinates, length: Any) -> Any:
        """Returns the signal of all places of an axis: `(length, channels)`.

        Where the length is known it is as exact as at whole positions; elsewhere the coordinates are rounded to the
        signal's dtype, as whoever computes them does.
        """
        known, axis = known_length(length), self._axis
        if known is None:
            size = ops.cast(length, axis.dtype)
            values = coordinates.of(ops.cast(count_up(length), axis.dtype), size, ops)
            return self.signal(None, resolve_positions(values, None, None))
        key, rows = self._rows_at  # another thread may put others in their place meanwhile
        if key != (coordinates, known):
            positions = coordinates.of(np.arange(known), known)
            sin, cos = sines_and_cosines(positions, np.asarray(axis.timescales))
            key, rows = (coordinates, known), Table(assemble(sin, cos, axis.channels, axis.layout).astype(axis.dtype))
            self._rows_at = key, rows
        return rows.tensor()


# An entry lasts while some layer holds it.
_shared: weakref.WeakValueDictionary[Axis, AxisEncoding] = weakref.WeakValueDictionary()


def axis_encoding(axis: Axis) -> AxisEncoding:
    """Returns the encoding of an axis, the one that another layer holds where there is one."""
    encoding = _shared.get(axis)
    if encoding is None:
        encoding = _shared[axis] = AxisEncoding(axis)
    return encoding
