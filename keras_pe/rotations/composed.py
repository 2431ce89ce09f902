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
from keras import ops

from keras_pe.rotations.concrete import choose, count_up, is_eager, known_length, visible
from keras_pe.rotations.digits import MIDDLES, UNITS, divide, quotient
from keras_pe.rotations.lookup import Table, guarded, take
from keras_pe.rotations.rotations import Rotation, compose, exact_rotations, split
from keras_pe.signal.layouts import Layout, assemble
from keras_pe.signal.timescales import Float64Array

MOST_READY_ROWS = 8_192  # of a range that is called eagerly: 16 MiB at 512 channels are enough


class ComposedEncoding:
    """The encoding of one axis of any length, at positions from `low` to `high - 1`, counted from `start_index`."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str, low: int, high: int
    ) -> None:
        self._channels, self._layout, self._dtype = channels, layout, dtype
        self._low, self._high = low, high
        # Blocks of UNITS positions are counted from the lowest on: divisions of negative integers differ.
        # Where negative positions are in reach, the middle and top digit may be negative: a sine is odd and a cosine
        # even, so that their tables are half as long.
        self._half = MIDDLES // 2 if low < 0 else 0
        self._first_top, last_top = ((edge // UNITS + self._half) // MIDDLES for edge in (low, high - 1))
        self._zero_block = self._half - self._first_top * MIDDLES
        middles = np.arange(self._half + 1 if self._half else min(MIDDLES, -(-high // UNITS)))
        tops = np.arange(max(-self._first_top, last_top) + 1)
        self._first_top_row, self._has_tops = len(middles), len(tops) > 1
        blocks = np.concatenate([middles, tops * MIDDLES]) if self._has_tops else middles
        sin, cos = (np.ascontiguousarray(half) for half in split(exact_rotations(blocks * UNITS, timescales)))
        # A position out of reach gets the row of NaN among the cosines, and among the sines one past the end: what
        # checks its indices refuses, and whatever is read elsewhere, the composition is not a number.
        self._sin, self._cos = Table(sin.astype(dtype)), Table(guarded(cos.astype(dtype)))
        self._above = (len(tops) - self._first_top) * MIDDLES if self._has_tops else len(middles)
        self._nowhere = -(len(tops) + self._first_top) * MIDDLES if self._half else self._above
        # The first rows of a range are rows of this table.
        self._units = Table(exact_rotations(start_index + np.arange(UNITS), timescales).astype(dtype))
        self._ready = Table(np.zeros((0, channels), dtype))

    def range(self, length: Any, start: Any = None) -> Any:
        """Returns the signal at `start`, an integer scalar or None for 0, and on: `(length, channels)`."""
        known = known_length(length)
        if start is not None:
            return self._range_from(start, length, known)
        if known is not None:
            return self._first(known) if known <= UNITS else self._seen_range(0, known)
        if keras.config.backend() != "tensorflow":
            return self.at(count_up(length))
        return self._short_or_long(length, lambda: self._first(length), lambda: self._graph_range(None, length))

    def at(self, positions: Any) -> Any:
        """Returns the signal at integer positions: `(*positions.shape, channels)`."""
        inside = ops.logical_and(positions >= self._low, positions < self._high)
        blocks, units = divide(ops.where(inside, positions, 0) + self._zero_block * UNITS, UNITS)
        blocks = ops.where(inside, blocks, self._nowhere)

        def composed() -> Any:
            # The table is split, not the rows taken of it, which are most often more. Here, not before the condition:
            # what an export finds outside of it, it stores beside the table.
            shape = self._units.shape[0], self._units.shape[1] // 2
            halves = (ops.slice(self._units.tensor(), (0, column), shape) for column in (0, shape[1]))
            unit_sin, unit_cos = (take(half, units) for half in halves)
            rotation = compose(self._rotations(blocks, may_skip=True), (unit_sin, unit_cos))
            return assemble(*rotation, self._channels, self._layout, xp=ops)

        return choose(
            ops.all(blocks == self._zero_block),
            lambda: self._laid_out(take(self._units.tensor(), units)),
            composed,
        )

    def _range_from(self, start: Any, length: Any, known: int | None) -> Any:
        seen = visible(start)
        if known is not None and known > UNITS:
            return self._graph_range(start, known) if seen is None else self._seen_range(int(seen), known)

        def short() -> Any:
            return self.at(start + count_up(length))

        if known is None and keras.config.backend() == "tensorflow":
            return self._short_or_long(length, short, lambda: self._graph_range(start, length))
        return short()

    def _short_or_long(self, length: Any, short: Callable[[], Any], long: Callable[[], Any]) -> Any:
        # XLA only knows the common shape of the two if it is told.
        return ops.reshape(ops.cond(length <= UNITS, short, long), (length, self._channels))

    def _first(self, length: Any) -> Any:
        return self._laid_out(self._units.tensor()[:length])

    def _seen_range(self, start: int, length: int) -> Any:
        """Returns the signal of a range that is known when the layer is called."""
        if start < 0 or start + length > MOST_READY_ROWS or not is_eager():
            return self._seen_blocks(start, length, ops)
        ready = self._ready  # another thread may put another one in its place meanwhile
        if start + length > ready.shape[0]:
            # Twice as many each time, so that a length that grows step by step costs little.
            rows = min(2 ** (start + length - 1).bit_length(), self._high)
            self._ready = ready = Table(self._seen_blocks(0, rows, np))
        return ready.tensor()[start : start + length]

    def _seen_blocks(self, start: int, length: int, xp: ModuleType) -> Any:
        first, skipped = divmod(start + self._zero_block * UNITS, UNITS)
        count = (skipped + length + UNITS - 1) // UNITS
        signal = self._compose_blocks(self._rotations(first + np.arange(count), np), count, xp)
        return signal[skipped : skipped + length]

    def _graph_range(self, start: Any, length: Any) -> Any:
        """Returns the signal of a range whose start or length only the graph knows."""
        if start is None:
            blocks = quotient(ops.arange(0, length, UNITS, dtype="int32"), UNITS) + self._zero_block
            blocks = ops.where(length <= self._high, blocks, self._above)
            return self._compose_blocks(self._rotations(blocks, from_zero=True), None, ops)[:length]
        count = -(-length // UNITS) if isinstance(length, int) else divide(length + (UNITS - 1), UNITS)[0]
        count, start = count + 1, ops.convert_to_tensor(start, dtype="int32")
        inside = ops.logical_and(start >= self._low, start <= self._high - length)
        first, skipped = divide(ops.where(inside, start, 0) + self._zero_block * UNITS, UNITS)
        # The last block may be one more than is needed, and out of reach.
        last = (self._high - 1) // UNITS + self._zero_block
        blocks = ops.minimum(first + ops.arange(count, dtype="int32"), last)
        blocks = ops.where(inside, blocks, self._nowhere)
        signal = self._compose_blocks(self._rotations(blocks), count, ops)
        return ops.slice(signal, (skipped, 0), (length, self._channels))

    def _compose_blocks(self, starts: Rotation, count: Any, xp: ModuleType) -> Any:
        """Returns whole blocks, `(count * UNITS, channels)`, from the rotations of their first positions.

        The count need not be known, and is not an integer then.

        The addition theorem for rows as they are laid out: beside a sine stands its cosine, and the other way round.
        """

        def row(sin: Any, cos: Any) -> Any:
            return assemble(sin, cos, self._channels, self._layout, xp=xp)

        sin, cos = (xp.expand_dims(each if xp is np else ops.convert_to_tensor(each), 1) for each in starts)
        units = self._units.rows if xp is np else self._units.tensor()
        unit_sin, unit_cos = split(units)
        laid_out = units if self._is_laid_out() else row(unit_sin, unit_cos)
        signal = laid_out * row(cos, cos) + row(unit_cos, unit_sin) * row(sin, -sin)
        return xp.reshape(signal, (count * UNITS if isinstance(count, int) else -1, self._channels))

    def _rotations(
        self, blocks: Any, xp: ModuleType = ops, *, may_skip: bool = False, from_zero: bool = False
    ) -> Rotation:
        """Returns the rotations of the first positions of blocks: `(*blocks.shape, timescales)`.

        Args:
            blocks: Their numbers, counted from the lowest.
            xp: NumPy, or `keras.ops`.
            may_skip: Whether a condition spares the second digit where it is 0: for few blocks it costs more.
            from_zero: Whether none holds negative positions.
        """
        sin, cos = ((each.rows if xp is np else each.tensor()) for each in (self._sin, self._cos))
        count = sin.shape[0]
        # A sine is odd: those of negative digits follow, with the other sign.
        odd = xp.concatenate([sin, -sin]) if self._half else None

        def plain(rows: Any) -> Rotation:
            return take(sin, rows, xp), take(cos, rows, xp)

        def signed(digits: Any, first_row: int = 0) -> Rotation:
            rows = xp.abs(digits) + first_row if first_row else xp.abs(digits)
            return take(odd, xp.where(digits < 0, rows + count, rows), xp), take(cos, rows, xp)

        if not self._has_tops:
            return signed(blocks) if self._half else plain(blocks)
        tops, middles = divmod(blocks, MIDDLES) if xp is np else divide(blocks, MIDDLES)
        rotation = signed(middles - self._half) if self._half else plain(middles)

        def composed() -> Rotation:
            if from_zero or not self._half:
                return compose(plain(tops + (self._first_top + self._first_top_row)), rotation)
            return compose(signed(tops + self._first_top, self._first_top_row), rotation)

        if not may_skip:
            return composed()
        chosen: Rotation = choose(xp.all(tops == -self._first_top), lambda: rotation, composed)
        return chosen

    def _is_laid_out(self) -> bool:
        """Whether the rows of the units are a signal already."""
        return self._layout == "concatenated" and self._channels == self._units.shape[-1]

    def _laid_out(self, rows: Any) -> Any:
        """Lays sines and cosines of units out as a signal."""
        return rows if self._is_laid_out() else assemble(*split(rows), self._channels, self._layout, xp=ops)
