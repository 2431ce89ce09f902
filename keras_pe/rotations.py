"""The same signal in Keras ops, at whole positions: angles are never formed, digits of the position are composed.

A float32 product `position * rate` has lost its last digits before a sine sees it. Here a position is written in a
mixed base, and each of its digits has a table of exact sines and cosines, made in float64 and rounded once. The
addition theorem composes them: `sin(a + b) = sin a cos b + cos a sin b`. Two compositions reach every position from
-2**24 to 2**24 - 1, with an error of at most 2.5e-7, and the graph holds only multiplications and additions, which
every runtime rounds alike. A range, a start and given positions have the same digits, and so the same bits.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.concrete import Table, choose, known_length, visible
from keras_pe.layouts import Layout, assemble
from keras_pe.timescales import Float64Array

LIMIT = 2**24  # positions are exact from -LIMIT to LIMIT - 1

# A position is `unit + UNITS * (middle + MIDDLES * top)`. Where negative ones are in reach, `middle` and `top` may be
# negative: a sine is odd and a cosine even, so that their tables are half as long.
UNITS, MIDDLES = 512, 256
NOWHERE = 2**20  # a block that no table holds

Rotation = tuple[Any, Any]  # sines and cosines, (..., timescales) each


class ComposedEncoding:
    """The encoding of one axis of any length, at positions from `low` to `high - 1`, counted from `start_index`."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str, low: int, high: int
    ) -> None:
        self._channels, self._layout, self._dtype = channels, layout, dtype
        self._low, self._high = low, high
        # Blocks of UNITS positions are counted from the lowest on: divisions of negative integers differ.
        self._half = MIDDLES // 2 if low < 0 else 0
        self._first_top, last_top = ((edge // UNITS + self._half) // MIDDLES for edge in (low, high - 1))
        self._zero_block = self._half - self._first_top * MIDDLES
        middles = np.arange(self._half + 1 if self._half else min(MIDDLES, -(-high // UNITS)))
        tops = np.arange(max(-self._first_top, last_top) + 1)
        self._first_top_row, self._has_tops = len(middles), len(tops) > 1
        blocks = np.concatenate([middles, tops * MIDDLES]) if self._has_tops else middles
        coarse = exact_rotations(blocks * UNITS, timescales).astype(dtype)
        self._sin, self._cos = (Table(np.ascontiguousarray(half)) for half in split(coarse))
        # The first rows of a range are rows of this table.
        self._units = Table(exact_rotations(start_index + np.arange(UNITS), timescales).astype(dtype))

    def range(self, length: Any, start: Any = None) -> Any:
        """Returns the signal at `start`, an integer scalar or None for 0, and on: `(length, channels)`."""
        known = known_length(length)
        if start is not None:
            return self._range_from(start, length, known)
        if known is not None:
            return self._first(known) if known <= UNITS else self._seen_blocks(0, known)
        if keras.config.backend() != "tensorflow":
            return self.at(ops.arange(length, dtype="int32"))
        return self._short_or_long(length, lambda: self._first(length), lambda: self._blocks_from(None, length))

    def at(self, positions: Any) -> Any:
        """Returns the signal at integer positions: `(*positions.shape, channels)`."""
        inside = ops.logical_and(positions >= self._low, positions < self._high)
        shifted = ops.where(inside, positions, 0) + self._zero_block * UNITS
        blocks = shifted // UNITS
        # Past the end of the table all runtimes refuse, or return NaN.
        units = ops.where(inside, shifted - blocks * UNITS, UNITS)
        return choose(
            ops.all(blocks == self._zero_block),
            lambda: self._laid_out(ops.take(self._units.tensor(), units, axis=0)),
            lambda: self._composed(blocks, units),
        )

    def _composed(self, blocks: Any, units: Any) -> Any:
        rotations = compose(self._rotations(blocks), split(ops.take(self._units.tensor(), units, axis=0)))
        return assemble(*rotations, self._channels, self._layout, xp=ops)

    def _range_from(self, start: Any, length: Any, known: int | None) -> Any:
        seen = visible(start)
        if known is not None and known > UNITS:
            return self._blocks_from(start, known) if seen is None else self._seen_blocks(int(seen), known)

        def short() -> Any:
            return self.at(start + ops.arange(length, dtype="int32"))

        if known is None and keras.config.backend() == "tensorflow":
            return self._short_or_long(length, short, lambda: self._blocks_from(start, length))
        return short()

    def _short_or_long(self, length: Any, short: Callable[[], Any], long: Callable[[], Any]) -> Any:
        # XLA only knows the common shape of the two if it is told.
        return ops.reshape(ops.cond(length <= UNITS, short, long), (length, self._channels))

    def _first(self, length: Any) -> Any:
        return self._laid_out(self._units.tensor()[:length])

    def _seen_blocks(self, start: int, length: int) -> Any:
        """Returns the signal of a range that is known when the layer is called."""
        first, skipped = divmod(start + self._zero_block * UNITS, UNITS)
        count = (skipped + length + UNITS - 1) // UNITS
        sin_cos = self._rotations(first + np.arange(count), np)
        return self._compose_blocks(sin_cos, count)[skipped : skipped + length]

    def _blocks_from(self, start: Any, length: Any) -> Any:
        """Returns the signal of a range whose start or length only the graph knows."""
        count = (length + UNITS - 1) // UNITS
        if start is None:
            blocks = self._zero_block + ops.arange(count, dtype="int32")
            blocks = ops.where(length <= self._high, blocks, NOWHERE)
            return self._compose_blocks(self._rotations(blocks), count)[:length]
        count, start = count + 1, ops.convert_to_tensor(start, dtype="int32")
        inside = ops.logical_and(start >= self._low, start <= self._high - length)
        shifted = ops.where(inside, start, 0) + self._zero_block * UNITS
        first, last = shifted // UNITS, (shifted + length - 1) // UNITS
        blocks = ops.minimum(first + ops.arange(count, dtype="int32"), last)
        signal = self._compose_blocks(self._rotations(ops.where(inside, blocks, NOWHERE)), count)
        return ops.slice(signal, (shifted - first * UNITS, 0), (length, self._channels))

    def _compose_blocks(self, starts: Rotation, count: Any) -> Any:
        """Returns whole blocks, `(count * UNITS, channels)`, from the rotations of their first positions.

        The addition theorem for rows as they are laid out: beside a sine stands its cosine, and the other way round.
        """
        sin, cos = (ops.expand_dims(ops.convert_to_tensor(each), 1) for each in starts)
        unit_sin, unit_cos = split(self._units.tensor())
        signal = self._row(unit_sin, unit_cos) * self._row(cos, cos)
        signal = signal + self._row(unit_cos, unit_sin) * self._row(sin, -sin)
        return ops.reshape(signal, (count * UNITS, self._channels))

    def _rotations(self, blocks: Any, xp: ModuleType = ops) -> Rotation:
        """Returns the rotations of the first positions of blocks: `(*blocks.shape, timescales)`."""
        tops = blocks // MIDDLES
        rotation = self._digit(blocks - tops * MIDDLES - self._half, 0, xp)
        if not self._has_tops:
            return rotation
        tops = tops + self._first_top
        sin, cos = choose(
            xp.all(tops == 0),
            lambda: rotation,
            lambda: compose(self._digit(tops, self._first_top_row, xp), rotation),
        )
        return sin, cos

    def _digit(self, digits: Any, first_row: int, xp: ModuleType) -> Rotation:
        rows = xp.abs(digits) + first_row
        sin, cos = (
            xp.take(table.rows if xp is np else table.tensor(), rows, axis=0) for table in (self._sin, self._cos)
        )
        if self._half:
            sign = xp.where(digits < 0, -1, 1)
            sin = sin * xp.expand_dims(sign.astype(self._dtype) if xp is np else ops.cast(sign, self._dtype), -1)
        return sin, cos

    def _row(self, sin: Any, cos: Any) -> Any:
        return assemble(sin, cos, self._channels, self._layout, xp=ops)

    def _laid_out(self, rows: Any) -> Any:
        """Lays the rows of a table out as a signal; most often they are one already."""
        if self._layout == "concatenated" and self._channels == rows.shape[-1]:
            return rows
        return self._row(*split(rows))


def compose(one: Rotation, other: Rotation) -> Rotation:
    """Returns the sines and cosines of the sums of two angles."""
    (sin_1, cos_1), (sin_2, cos_2) = one, other
    return sin_1 * cos_2 + cos_1 * sin_2, cos_1 * cos_2 - sin_1 * sin_2


def exact_rotations(positions: npt.NDArray[np.int64], timescales: Float64Array) -> Float64Array:
    """Returns sines, then cosines, in float64: `(positions, 2 * timescales)`."""
    angles = positions.astype(np.float64)[:, np.newaxis] / timescales
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def split(rows: Any) -> Rotation:
    """Returns the sines and the cosines of rows that hold both."""
    count = rows.shape[-1] // 2
    return rows[..., :count], rows[..., count:]
