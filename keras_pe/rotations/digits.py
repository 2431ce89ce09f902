"""The digits of a position, and the rotation of each: `position = unit + UNITS * (middle + MIDDLES * top)`."""

from types import ModuleType
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.rotations.concrete import choose
from keras_pe.rotations.lookup import Table, guarded, take
from keras_pe.signal.formula import sines_and_cosines
from keras_pe.signal.timescales import Float64Array

LIMIT = 2**24  # positions are exact from -LIMIT to LIMIT - 1
UNITS, MIDDLES = 512, 256

Rotation = tuple[Any, Any]  # sines and cosines, (..., timescales) each


def compose(one: Rotation, other: Rotation) -> Rotation:
    """Returns the sines and cosines of the sums of two angles."""
    (sin_1, cos_1), (sin_2, cos_2) = one, other
    return sin_1 * cos_2 + cos_1 * sin_2, cos_1 * cos_2 - sin_1 * sin_2


def exact_rotations(positions: npt.NDArray[np.int64], timescales: Float64Array) -> Float64Array:
    """Returns sines, then cosines, in float64: `(positions, 2 * timescales)`."""
    return np.concatenate(sines_and_cosines(positions, timescales), axis=-1)


def split(rows: Any) -> Rotation:
    """Returns the sines and the cosines of rows that hold both."""
    count = rows.shape[-1] // 2
    return rows[..., :count], rows[..., count:]


def divide(numbers: Any, divisor: int) -> tuple[Any, Any]:
    """Returns quotients and remainders of int32 tensors and a power of two; what is negative is a multiple of it."""
    if keras.config.backend() == "jax":
        import jax

        # Keras' export to ONNX on JAX knows no remainder of a length that is not known.
        quotients = jax.lax.div(numbers, jax.numpy.int32(divisor))
        return quotients, numbers - quotients * divisor
    rest = ops.mod(numbers, divisor)
    return quotient(numbers - rest, divisor), rest


def quotient(multiples: Any, divisor: int) -> Any:
    """Returns the quotients of int32 multiples of a power of two.

    ONNX rounds the quotient of integers to zero, and rounding it down takes many operators. That of floats is exact:
    a multiple has few digits.
    """
    return ops.cast(ops.cast(multiples, "float32") * (1 / divisor), "int32")


class BlockRotations:
    """The rotation of the first position of each block of UNITS positions, from those of its middle and top digit.

    Blocks are numbered from the lowest one in reach, because divisions of negative integers differ between runtimes.
    Where negative positions are in reach, the middle and the top digit may be negative. A sine is odd and a cosine
    even, so the tables hold the rows of digits from 0 on only.

    Attributes:
        of_position_zero: Number of the block that begins with position 0.
        invalid: Number of a block that stands for a position out of reach. Its row is one past the end of the sines,
            where a runtime that checks indices reports an error, and the row of NaN after the cosines, so that the
            result is NaN in a runtime that reads some other row of the sines instead.
        invalid_from_zero: The same among blocks that hold no negative positions.
    """

    def __init__(self, timescales: Float64Array, low: int, high: int, dtype: str) -> None:
        self._is_signed = low < 0
        self._lowest_middle = -(MIDDLES // 2) if self._is_signed else 0
        self._lowest_top, highest_top = ((edge // UNITS - self._lowest_middle) // MIDDLES for edge in (low, high - 1))
        self.of_position_zero = -self._lowest_middle - self._lowest_top * MIDDLES
        middles = np.arange(1 - self._lowest_middle if self._is_signed else min(MIDDLES, -(-high // UNITS)))
        tops = np.arange(max(-self._lowest_top, highest_top) + 1)
        self._has_tops, self._row_of_top_zero = len(tops) > 1, len(middles)
        blocks = np.concatenate([middles, tops * MIDDLES]) if self._has_tops else middles
        sin, cos = (np.ascontiguousarray(half) for half in split(exact_rotations(blocks * UNITS, timescales)))
        self._sin, self._cos = Table(sin.astype(dtype)), Table(guarded(cos.astype(dtype)))
        self.invalid_from_zero = (len(tops) - self._lowest_top) * MIDDLES if self._has_tops else len(middles)
        self.invalid = -(len(tops) + self._lowest_top) * MIDDLES if self._is_signed else self.invalid_from_zero

    def at(self, blocks: Any, xp: ModuleType = ops, *, may_skip: bool = False, from_zero: bool = False) -> Rotation:
        """Returns the rotations of the first positions of blocks: `(*blocks.shape, timescales)`.

        Args:
            blocks: Their numbers.
            xp: NumPy, or `keras.ops`.
            may_skip: Whether a condition spares the top digit where it is 0: for few blocks it costs more.
            from_zero: Whether none holds negative positions.
        """
        sin, cos = ((each.rows if xp is np else each.tensor()) for each in (self._sin, self._cos))
        count = sin.shape[0]
        # The sines of negative digits follow, with the other sign.
        signed_sin = xp.concatenate([sin, -sin]) if self._is_signed else None

        def unsigned(rows: Any) -> Rotation:
            return take(sin, rows, xp), take(cos, rows, xp)

        def signed(digits: Any, first_row: int = 0) -> Rotation:
            rows = xp.abs(digits) + first_row if first_row else xp.abs(digits)
            return take(signed_sin, xp.where(digits < 0, rows + count, rows), xp), take(cos, rows, xp)

        if not self._has_tops:
            return signed(blocks) if self._is_signed else unsigned(blocks)
        tops, middles = divmod(blocks, MIDDLES) if xp is np else divide(blocks, MIDDLES)
        rotation = signed(middles + self._lowest_middle) if self._is_signed else unsigned(middles)

        def composed() -> Rotation:
            if from_zero or not self._is_signed:
                return compose(unsigned(tops + (self._lowest_top + self._row_of_top_zero)), rotation)
            return compose(signed(tops + self._lowest_top, self._row_of_top_zero), rotation)

        if not may_skip:
            return composed()
        chosen: Rotation = choose(xp.all(tops == -self._lowest_top), lambda: rotation, composed)
        return chosen
