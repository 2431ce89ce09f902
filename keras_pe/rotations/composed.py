"""The signal at whole positions in Keras operations: rotations by the digits of a position, multiplied.

A float32 product `position * rate` has lost its last digits before its sine is computed. Here a position is written in
a mixed base, `unit + UNITS * (middle + MIDDLES * top)`. Each digit has a table of exact sines and cosines, made in
float64 and rounded once. The addition theorem composes them: `sin(a + b) = sin a cos b + cos a sin b`. Two
compositions reach every position from -2**24 to 2**24 - 1, with an error of at most 2.5e-7. The graph holds only
multiplications and additions, which every runtime rounds alike. A range, a start and given positions have the same
digits, and so the same bits.

The table shows how a range is computed, by the values that are certain when the layer is called (see `static_values`):

    length        start            backend                  way
    up to 512     none             every                    rows of the table of units
    any           none, or seen    TensorFlow, PyTorch,     rows kept from call to call, up to MOST_ROWS
                                   called eagerly
    up to 512     any, else        every                    `at`, position by position
    more          none, or seen    every, else              whole blocks, their rotations constants of the graph
    more          not seen         every                    whole blocks, their rotations looked up
    not known     any              TensorFlow               one of the ways above, by a condition in the graph
    not known     any              JAX, PyTorch             `at`, position by position

`at` composes, unless all positions are in the first block. If that is known, or can be a condition in a graph of
TensorFlow, it returns rows of the table of units. `rotations` has no such condition, and none on an unknown length. The
rotation of heads, which uses it, costs more than a condition saves.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.rotations.lookup import MOST_ROWS, Table, append_guard, failing_out_of_reach, take
from keras_pe.rotations.static_values import (
    align_dtypes,
    choose,
    compiled_by_xla,
    count_up,
    is_eager,
    known_length,
    visible,
)
from keras_pe.signal.formula import Float64Array, sines_and_cosines
from keras_pe.signal.layouts import Layout, assemble

LIMIT = 2**24  # positions are exact from -LIMIT to LIMIT - 1
UNITS, MIDDLES = 512, 256

Rotation = tuple[Any, Any]  # sines and cosines, (..., timescales) each
Columns = Rotation | Any  # the same, or rows that hold both, (..., 2 * timescales), which are laid out at once


def compose(one: Rotation, other: Rotation) -> Rotation:
    """Returns the sines and cosines of the sums of two angles."""
    (sin_1, cos_1), (sin_2, cos_2) = one, other
    return sin_1 * cos_2 + cos_1 * sin_2, cos_1 * cos_2 - sin_1 * sin_2


def exact_rotations(positions: npt.NDArray[np.int64], timescales: Float64Array) -> Float64Array:
    """Returns sines, then cosines, in float64: `(positions, 2 * timescales)`."""
    return np.concatenate(sines_and_cosines(positions, timescales), axis=-1)


def split(rows: Any, xp: ModuleType = ops) -> Rotation:
    """Returns the sines and the cosines of rows that hold both."""
    sin, cos = xp.split(rows, 2, axis=len(rows.shape) - 1)
    return sin, cos


def split_columns(columns: Columns) -> Rotation:
    """Returns the sines and the cosines, cut out of the rows that hold both."""
    return columns if isinstance(columns, tuple) else split(columns)


def map_columns(function: Callable[..., Any], *columns: Columns) -> Columns:
    """Returns what a function makes of sines and of cosines, or at once of the rows that hold both."""
    if not isinstance(columns[0], tuple):
        return function(*columns)
    sin, cos = (function(*parts) for parts in zip(*columns, strict=True))
    return sin, cos


def divide(numbers: Any, divisor: int) -> tuple[Any, Any]:
    """Returns the quotients and remainders of int32 tensors and a power of two. Negative numbers must be multiples."""
    if keras.config.backend() == "jax":
        import jax

        # Keras' export to ONNX on JAX cannot convert the remainder of an unknown length.
        quotients = jax.lax.div(numbers, jax.numpy.int32(divisor))
        return quotients, numbers - quotients * divisor
    rest = ops.mod(numbers, divisor)
    return quotient(numbers if keras.config.backend() == "tensorflow" else numbers - rest, divisor), rest


def quotient(multiples: Any, divisor: int) -> Any:
    """Divides int32 multiples of a power of two by it. On TensorFlow, positive numbers may be other numbers too.

    On TensorFlow the quotient is rounded to zero, as in ONNX, which needs many operators to round down. On the other
    backends the quotient of floats is exact, since a multiple has few digits.
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return tf.truncatediv(multiples, divisor)
    return ops.cast(ops.cast(multiples, "float32") * (1 / divisor), "int32")


class BlockRotations:
    """The rotation of the first position of each block of UNITS positions, from those of its middle and top digit.

    Blocks are numbered from the lowest one in reach, because divisions of negative integers differ between runtimes.
    If negative positions are in reach, the digits may be negative, and the tables begin with the lowest.

    Attributes:
        of_position_zero: Number of the block that begins with position 0.
        invalid: Number of a block that stands for a position out of reach. Its row is one past the end of the sines,
            where a runtime that checks indices reports an error. After the cosines it is the row of NaN, so the result
            is NaN in a runtime that reads some other row of the sines.
    """

    def __init__(self, timescales: Float64Array, low: int, high: int, dtype: str) -> None:
        self._reach = low, high
        lowest_middle = -(MIDDLES // 2) if low < 0 else 0
        lowest_top, highest_top = ((edge // UNITS - lowest_middle) // MIDDLES for edge in (low, high - 1))
        self.of_position_zero = -lowest_middle - lowest_top * MIDDLES
        tops = np.arange(lowest_top, highest_top + 1)
        self._has_tops, self._top_of_zero = len(tops) > 1, -lowest_top
        blocks = lowest_middle + np.arange(MIDDLES if self._has_tops or low < 0 else -(-high // UNITS))
        self._row_of_lowest_top = len(blocks)
        self.invalid = len(tops) * MIDDLES if self._has_tops else len(blocks)
        blocks = np.concatenate([blocks, tops * MIDDLES]) if self._has_tops else blocks
        sin, cos = (np.ascontiguousarray(half) for half in split(exact_rotations(blocks * UNITS, timescales), np))
        self._sin, self._cos = Table(sin.astype(dtype)), Table(append_guard(cos.astype(dtype)))

    def at(self, blocks: Any, xp: ModuleType = ops, *, may_skip: bool = False) -> Rotation:
        """Returns the rotations of the first positions of blocks: `(*blocks.shape, timescales)`.

        Args:
            blocks: Their numbers.
            xp: NumPy, or `keras.ops`.
            may_skip: Whether a condition spares the top digit where it is 0: for few blocks it costs more.
        """
        sin, cos = ((each.rows if xp is np else each.tensor()) for each in (self._sin, self._cos))

        def rows(numbers: Any) -> Rotation:
            with failing_out_of_reach(*self._reach):
                return take(sin, numbers, xp), take(cos, numbers, xp)

        if not self._has_tops:
            return rows(blocks)
        tops, middles = divmod(blocks, MIDDLES) if xp is np else divide(blocks, MIDDLES)

        def compose_rotation() -> Rotation:
            return compose(rows(tops + self._row_of_lowest_top), rows(middles))

        if not may_skip:
            return compose_rotation()
        chosen: Rotation = choose(xp.all(tops == self._top_of_zero), lambda: rows(middles), compose_rotation)
        return chosen


class ComposedEncoding:
    """The encoding of one axis of any length, at positions from `low` to `high - 1`, counted from `start_index`."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str, low: int, high: int
    ) -> None:
        self._channels, self._layout = channels, layout
        self._low, self._high = low, high
        self._blocks = BlockRotations(timescales, low, high, dtype)
        # The first rows of a range are rows of this table.
        self._units = Table(exact_rotations(start_index + np.arange(UNITS), timescales).astype(dtype))
        self._kept = Table(np.zeros((0, channels), dtype))

    def range(self, length: Any, start: Any = None) -> Any:
        """Returns the signal at `start`, an integer scalar or None for 0, and on: `(length, channels)`.

        Positions that can be seen to be out of reach must have been refused.
        """
        known = known_length(length)
        if known is None and keras.config.backend() == "tensorflow":
            few = length <= min(UNITS, self._high)
            signal = ops.cond(few, lambda: self._short(length, start), lambda: self._long(length, start))
            return ops.reshape(signal, (length, self._channels))  # XLA needs the shape that both have
        if known is None:
            return self.at(count_up(length) if start is None else start + count_up(length))
        first = visible(0 if start is None else start)
        if known <= UNITS and (start is None or first is None or not is_eager()):
            return self._short(known, start)
        return self._long(known, start) if first is None else self._known_range(int(first), known)

    def at(self, positions: Any) -> Any:
        """Returns the signal at integer positions: `(*positions.shape, channels)`."""
        blocks, units = self._digits(positions)
        of_one = all(size == 1 for size in positions.shape)
        return choose(
            ops.all(blocks == self._blocks.of_position_zero),
            lambda: self._laid_out(take(self._units.tensor(), units)),
            lambda: assemble(*self._compose(blocks, units, not of_one), self._channels, self._layout, xp=ops),
            of_one=of_one,
        )

    def rotations(self, length: Any, start: Any, positions: Any) -> Columns:
        """Returns the rotations at positions, or where there are none at `start`, 0 if it is None, and on.

        No graph decides, but of a range from 0 on.
        """
        if positions is None:
            known = known_length(length)
            if start is None or (known is not None and (known > UNITS or visible(start) is not None)):
                return self.range(length, start)
            positions = start + count_up(length)
        rotation = self._compose(*self._digits(positions), may_skip=False)
        # XLA would compose anew for each head what it can fuse with the turn, but makes once what is concatenated.
        return ops.concatenate(rotation, axis=-1) if compiled_by_xla() else rotation

    def _digits(self, positions: Any) -> tuple[Any, Any]:
        """Splits positions into (block, unit); positions out of reach get the invalid block."""
        reached = ops.clip(positions, self._low, self._high - 1)
        blocks, units = divide(reached + self._blocks.of_position_zero * UNITS, UNITS)
        return ops.where(ops.equal(positions, reached), blocks, self._blocks.invalid), units

    def _compose(self, blocks: Any, units: Any, may_skip: bool) -> Rotation:
        # The table is split, not the rows taken of it, which are most often more. Here, not before a condition: what
        # an export finds outside of it, it stores beside the table.
        shape = self._units.shape[0], self._units.shape[1] // 2
        halves = (ops.slice(self._units.tensor(), (0, column), shape) for column in (0, shape[1]))
        unit_sin, unit_cos = (take(half, units) for half in halves)
        return compose(self._blocks.at(blocks, may_skip=may_skip), (unit_sin, unit_cos))

    def _short(self, length: Any, start: Any) -> Any:
        """Returns the signal of a range of at most UNITS positions."""
        if start is None:
            return self._laid_out(self._units.tensor()[:length])
        return self.at(start + count_up(length))

    def _long(self, length: Any, start: Any) -> Any:
        """Returns the signal of a range whose start or length only the graph knows, in whole blocks."""
        if start is None:
            blocks = quotient(ops.arange(0, length, UNITS, dtype="int32"), UNITS) + self._blocks.of_position_zero
            blocks = ops.where(length <= self._high, blocks, self._blocks.invalid)
            return self._whole_blocks(self._blocks.at(blocks), None, ops)[:length]
        count = -(-length // UNITS) if isinstance(length, int) else divide(length + (UNITS - 1), UNITS)[0]
        count, start = count + 1, ops.convert_to_tensor(start, dtype="int32")
        inside = ops.logical_and(start >= self._low, start <= self._high - length)
        first, skipped = divide(ops.where(inside, start, 0) + self._blocks.of_position_zero * UNITS, UNITS)
        # The last block may be one more than is needed, and out of reach.
        last = (self._high - 1) // UNITS + self._blocks.of_position_zero
        blocks = ops.minimum(first + ops.arange(count, dtype="int32"), last)
        blocks = ops.where(inside, blocks, self._blocks.invalid)
        signal = self._whole_blocks(self._blocks.at(blocks), count, ops)
        return ops.slice(signal, (skipped, ops.zeros_like(skipped)), (length, self._channels))

    def _known_range(self, start: int, length: int) -> Any:
        """Returns the signal of a range that is known when the layer is called."""
        if start < 0 or start + length > MOST_ROWS or not is_eager():
            return self._known_blocks(start, length, ops)
        kept = self._kept  # another thread may put another one in its place meanwhile
        if start + length > kept.shape[0]:
            # Twice as many each time, so that a length that grows step by step costs little.
            rows = min(2 ** (start + length - 1).bit_length(), self._high)
            self._kept = kept = Table(self._known_blocks(0, rows, np))
        return kept.tensor()[start : start + length]

    def _known_blocks(self, start: int, length: int, xp: ModuleType) -> Any:
        first, skipped = divmod(start + self._blocks.of_position_zero * UNITS, UNITS)
        count = (skipped + length + UNITS - 1) // UNITS
        signal = self._whole_blocks(self._blocks.at(first + np.arange(count), np), count, xp)
        return signal[skipped : skipped + length]

    def _whole_blocks(self, starts: Rotation, count: Any, xp: ModuleType) -> Any:
        """Returns whole blocks, `(count * UNITS, channels)`, from the rotations of their first positions.

        The count need not be known, and is not an integer then.

        The addition theorem for rows as they are laid out: beside a sine stands its cosine, and the other way round.
        """

        def row(sin: Any, cos: Any) -> Any:
            return assemble(sin, cos, self._channels, self._layout, xp=xp)

        sin, cos = (xp.expand_dims(each if xp is np else ops.convert_to_tensor(each), 1) for each in starts)
        units = self._units.rows if xp is np else self._units.tensor()
        unit_sin, unit_cos = split(units, xp)
        laid_out = units if self._is_laid_out() else row(unit_sin, unit_cos)
        factors = [(laid_out, row(cos, cos)), (row(unit_cos, unit_sin), row(sin, -sin))]
        (one, first), (other, second) = factors if xp is np else (align_dtypes(*each) for each in factors)
        signal = one * first + other * second
        return xp.reshape(signal, (count * UNITS if isinstance(count, int) else -1, self._channels))

    def _is_laid_out(self) -> bool:
        """Whether the rows of the units are a signal already."""
        return self._layout == "concatenated" and self._channels == self._units.shape[-1]

    def _laid_out(self, rows: Any) -> Any:
        """Lays sines and cosines of units out as a signal."""
        return rows if self._is_laid_out() else assemble(*split(rows), self._channels, self._layout, xp=ops)
