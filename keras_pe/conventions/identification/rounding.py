"""How far rounding to a storage type may move the values of a table: to floating-point numbers or to int8 steps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from keras_pe.conventions.identification.rows import CheckedTable
from keras_pe.signal.formula import Float64Array

# Half a unit in the last place, relative to the value: float32 (and float64), float16, bfloat16.
_RELATIVE = (2.0**-24, 2.0**-11, 2.0**-8)
# A second rounding and the fitted scale move a value by more than half a unit.
SLACK = 1.5


@dataclass(frozen=True, eq=False)
class Rounding:
    """The error of one storage type, if the table was scaled afterwards or not.

    Attributes:
        relative: Largest error of a value of a floating-point type, relative to the value.
        absolute: Largest error of any value, or of each column. Sines of float32 are off by 1e-7.
    """

    relative: float
    absolute: Float64Array | float

    def of(self, values: Float64Array) -> Float64Array:
        """Returns the largest error of each value: `(rows, channels)`."""
        largest: Float64Array = self.relative * np.abs(values) + self.absolute
        return largest


def rounding_of(table: CheckedTable, values: Float64Array, off: float) -> Rounding | None:
    """Returns the finest rounding that explains how radii differ in the first rows of a table, or None.

    Args:
        table: All of the table.
        values: Its first rows, `(rows, channels)`.
        off: Largest difference of a radius from their mean, relative to it. An error of angles keeps the radii.
    """
    scale = float(np.sqrt(2 * np.mean(values**2)))
    relative = next((each for each in _RELATIVE if each >= _exact_in(values) and SLACK * each + 3e-7 >= off), None)
    # Steps of int8 are half as coarse as bfloat16 at 1, and far coarser near 0.
    if relative in (None, _RELATIVE[-1]):
        for steps in _int8_steps(table, values):
            whole = values / steps
            if np.abs(whole - np.round(whole)).max() < 0.1:  # float16 keeps 127 steps to 0.06 of one
                return Rounding(0.0, np.broadcast_to(steps, values.shape).max(axis=0) / 2 + 1e-7 * scale)
    # Subnormal numbers of float16 are half a step of 2**-24 off.
    return None if relative is None else Rounding(relative, 1.5e-7 * scale + (relative == _RELATIVE[1]) * 2.0**-25)


def _exact_in(values: Float64Array) -> float:
    """Returns the error of the coarsest type that holds all values exactly; of float32 if no narrower one does."""
    with np.errstate(over="ignore"):
        half, single = values.astype(np.float16), values.astype(np.float32)
    # bfloat16 is float32 without its lower 16 bits. It comes first, since float16 holds most of its numbers too.
    if np.array_equal(single, values) and not (single.view(np.uint32) & 0xFFFF).any():
        return _RELATIVE[2]
    return _RELATIVE[1] if np.array_equal(half, values) else _RELATIVE[0]


def _int8_steps(table: CheckedTable, values: Float64Array) -> Iterator[Float64Array]:
    """Returns int8 steps by table, by column and by row: 1 / 127 or 1 / 128 of the largest, 1 / 255 of the range."""
    low, high = table.range_of_columns()
    ranges = (low.min(), high.max()), (low, high), (values.min(1, keepdims=True), values.max(1, keepdims=True))
    for least, most in ranges:
        largest = np.maximum(np.abs(least), np.abs(most))
        for steps in (largest / 127, largest / 128, (most - least) / 255):
            yield np.where(steps > 0, steps, 1.0)
