"""The digits of a position, and the rotation of each: `position = unit + UNITS * (middle + MIDDLES * top)`."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.rotations.concrete import choose
from keras_pe.rotations.lookup import Table, failing_out_of_reach, guarded, take
from keras_pe.signal.formula import sines_and_cosines
from keras_pe.signal.timescales import Float64Array

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


def apart(columns: Columns) -> Rotation:
    """Returns the sines and the cosines, cut out of the rows that hold both."""
    return columns if isinstance(columns, tuple) else split(columns)


def of_each(function: Callable[..., Any], *columns: Columns) -> Columns:
    """Returns what a function makes of sines and of cosines, or at once of the rows that hold both."""
    if not isinstance(columns[0], tuple):
        return function(*columns)
    sin, cos = (function(*parts) for parts in zip(*columns, strict=True))
    return sin, cos


def divide(numbers: Any, divisor: int) -> tuple[Any, Any]:
    """Returns quotients and remainders of int32 tensors and a power of two; what is negative is a multiple of it."""
    if keras.config.backend() == "jax":
        import jax

        # Keras' export to ONNX on JAX knows no remainder of a length that is not known.
        quotients = jax.lax.div(numbers, jax.numpy.int32(divisor))
        return quotients, numbers - quotients * divisor
    rest = ops.mod(numbers, divisor)
    return quotient(numbers if keras.config.backend() == "tensorflow" else numbers - rest, divisor), rest


def quotient(multiples: Any, divisor: int) -> Any:
    """Returns the quotients of int32 multiples of a power of two; on TensorFlow any positive numbers may have a rest.

    ONNX rounds the quotient of integers to zero, as this does there: to round it down takes many operators. Elsewhere
    that of floats is exact: a multiple has few digits.
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return tf.truncatediv(multiples, divisor)
    return ops.cast(ops.cast(multiples, "float32") * (1 / divisor), "int32")


class BlockRotations:
    """The rotation of the first position of each block of UNITS positions, from those of its middle and top digit.

    Blocks are numbered from the lowest one in reach, because divisions of negative integers differ between runtimes.
    Where negative positions are in reach the digits may be negative, and the tables begin with the lowest.

    Attributes:
        of_position_zero: Number of the block that begins with position 0.
        invalid: Number of a block that stands for a position out of reach. Its row is one past the end of the sines,
            where a runtime that checks indices reports an error, and the row of NaN after the cosines, so that the
            result is NaN in a runtime that reads some other row of the sines instead.
    """

    def __init__(self, timescales: Float64Array, low: int, high: int, dtype: str) -> None:
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
        self._sin, self._cos = Table(sin.astype(dtype)), Table(guarded(cos.astype(dtype)))

    def at(self, blocks: Any, xp: ModuleType = ops, *, may_skip: bool = False) -> Rotation:
        """Returns the rotations of the first positions of blocks: `(*blocks.shape, timescales)`.

        Args:
            blocks: Their numbers.
            xp: NumPy, or `keras.ops`.
            may_skip: Whether a condition spares the top digit where it is 0: for few blocks it costs more.
        """
        sin, cos = ((each.rows if xp is np else each.tensor()) for each in (self._sin, self._cos))

        def rows(numbers: Any) -> Rotation:
            with failing_out_of_reach():
                return take(sin, numbers, xp), take(cos, numbers, xp)

        if not self._has_tops:
            return rows(blocks)
        tops, middles = divmod(blocks, MIDDLES) if xp is np else divide(blocks, MIDDLES)

        def composed() -> Rotation:
            return compose(rows(tops + self._row_of_lowest_top), rows(middles))

        if not may_skip:
            return composed()
        chosen: Rotation = choose(xp.all(tops == self._top_of_zero), lambda: rows(middles), composed)
        return chosen
