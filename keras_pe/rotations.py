"""The same signal in Keras ops, at any position: angles are never formed, digits of the position are composed.

A float32 product `position * rate` has lost its last digits before a sine sees it. Here a position is written in a
mixed base, and each of its digits has a table of exact sines and cosines, made in float64 and rounded once. The
addition theorem composes them: `sin(a + b) = sin a cos b + cos a sin b`. Two compositions reach every position below
2**24, with an error of at most 2.5e-7, and the graph holds only multiplications and additions, which every runtime
rounds alike.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.layouts import Layout, assemble
from keras_pe.timescales import Float64Array

# A position from -2**24 to 2**24 - 1, shifted to 0 ... 2**25 - 1, is `units + 512 * (middles + 256 * tops)`.
UNITS, MIDDLES, TOPS = 512, 256, 256
LIMIT = UNITS * MIDDLES * TOPS // 2

Rotation = tuple[Any, Any]  # sines and cosines, (..., timescales) each


class UnboundedAxis:
    """The encoding of one axis of any length, at any position from `-LIMIT` to `LIMIT - 1`."""

    def __init__(self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str) -> None:
        self._channels, self._layout, self._start_index = channels, layout, start_index
        digits = [
            np.arange(UNITS),
            np.arange(MIDDLES) * UNITS,
            np.arange(TOPS) * UNITS * MIDDLES - LIMIT,
        ]
        # Where a range begins with its UNITS first rows: those of the lowest digit, or rows of their own at the end.
        self._first = UNITS + MIDDLES + TOPS if start_index else 0
        if start_index:
            digits.append(start_index + np.arange(UNITS))
        self._table = _exact_rotations(np.concatenate(digits), timescales).astype(dtype)

    def range(self, length: Any) -> Any:
        """Returns the signal at `start_index + 0, ..., length - 1`: `(length, channels)`.

        A short range is a slice of the table, only a longer one is composed. Where the length is not known before the
        graph runs, the graph decides.
        """
        if isinstance(length, int):
            return self._slice(self._table, length) if length <= UNITS else self._compose(self._table, length)
        table = ops.convert_to_tensor(self._table)
        return ops.cond(length <= UNITS, lambda: self._slice(table, length), lambda: self._compose(table, length))

    def at(self, positions: Any) -> Rotation:
        """Returns the rotations of `start_index + positions`, an integer tensor."""
        return _rotations(self._table, positions + self._start_index)

    def _slice(self, table: Any, length: Any) -> Any:
        return _signal(ops.convert_to_tensor(table[self._first : self._first + length]), self._channels, self._layout)

    def _compose(self, table: Any, length: Any) -> Any:
        blocks = (length + UNITS - 1) // UNITS
        sin, cos = _rotations(table, ops.arange(blocks, dtype="int32") * UNITS)
        first = _split(ops.convert_to_tensor(table[self._first : self._first + UNITS]))
        sin, cos = compose((ops.expand_dims(sin, 1), ops.expand_dims(cos, 1)), first)
        rows = (blocks * UNITS, sin.shape[-1])
        sin, cos = ops.reshape(sin, rows)[:length], ops.reshape(cos, rows)[:length]
        return assemble(sin, cos, self._channels, self._layout, xp=ops)


class BoundedAxis:
    """The encoding of one axis of at most `max_length` positions: a table, the fastest graph."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, max_length: int, dtype: str
    ) -> None:
        self._max_length = max_length
        self._rows = _exact_rotations(start_index + np.arange(max_length), timescales).astype(dtype)
        self._signal = assemble(*_split(self._rows), channels, layout)

    def range(self, length: Any) -> Any:
        """Returns the first `length` rows of the signal: `(length, channels)`. More than there are fail."""
        return first_rows(self._signal, length)

    def at(self, positions: Any) -> Rotation:
        """Returns the rotations of `start_index + positions`, an integer tensor from 0 to `max_length - 1`."""
        return _split(take_rows(self._rows, positions))


def compose(one: Rotation, other: Rotation) -> Rotation:
    """Returns the sines and cosines of the sums of two angles.

    The products are of half the signal's width: XLA fuses a full-width form, and rounds it otherwise.
    """
    (sin_1, cos_1), (sin_2, cos_2) = one, other
    return sin_1 * cos_2 + cos_1 * sin_2, cos_1 * cos_2 - sin_1 * sin_2


def first_rows(table: Any, length: Any) -> Any:
    """Returns `table[:length]`, `(length, columns)`, and fails where the table is shorter.

    TensorFlow checks the size of a slice, but ONNX's Slice returns what there is, and a single row would then be
    broadcast: there the reshape refuses. (TensorFlow itself optimises the reshape away.)
    """
    shape = (length, table.shape[-1])
    return ops.reshape(ops.slice(ops.convert_to_tensor(table), (0, 0), shape), shape)


def take_rows(table: Any, rows: Any) -> Any:
    """Returns `table[rows]`, `(..., columns)`, and fails where a row is not there.

    A negative index counts from the end in some runtimes: it is pointed past the end, where all of them refuse.
    """
    return ops.take(table, ops.where(rows < 0, table.shape[0], rows), axis=0)


def fraction_rotations(fractions: Any, rates: npt.NDArray[Any]) -> Rotation:
    """Returns the rotations of positions below 1, whose angles the dtype can hold."""
    angles = ops.multiply(ops.expand_dims(fractions, -1), rates)
    return ops.sin(angles), ops.cos(angles)


def _rotations(table: Any, positions: Any) -> Rotation:
    """Composes the rotations of integer positions from the table's three digits."""
    shifted = positions + LIMIT
    tops = shifted // (UNITS * MIDDLES)
    rest = shifted - tops * (UNITS * MIDDLES)
    middles = rest // UNITS
    units = rest - middles * UNITS
    # Without this, positions out of reach would find a row that belongs to something else. Past the end all refuse.
    tops = ops.where((shifted < 0) | (shifted >= 2 * LIMIT), table.shape[0], tops)
    digits = ops.take(table, ops.stack([units, UNITS + middles, UNITS + MIDDLES + tops], axis=-1), axis=0)
    coarse = compose(_split(digits[..., 2, :]), _split(digits[..., 1, :]))
    return compose(coarse, _split(digits[..., 0, :]))


def _exact_rotations(positions: npt.NDArray[np.int64], timescales: Float64Array) -> Float64Array:
    """Returns sines, then cosines, in float64: `(positions, 2 * timescales)`."""
    angles = positions.astype(np.float64)[:, np.newaxis] / timescales
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def _split(rows: Any) -> Rotation:
    count = rows.shape[-1] // 2
    return rows[..., :count], rows[..., count:]


def _signal(rows: Any, channels: int, layout: Layout) -> Any:
    """Lays the rows of a table out as a signal; most often they are one already."""
    if layout == "concatenated" and channels == rows.shape[-1]:
        return rows
    return assemble(*_split(rows), channels, layout, xp=ops)
