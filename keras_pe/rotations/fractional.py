"""The signal between whole positions, as exact as at them.

A fraction has no digits to look up, so the angle is formed, but in turns: whole turns change nothing and are dropped
while nothing is lost. The position is cut into short numbers, and of each the turns of one unit are known to float64;
their leading 12 bits times a short number are exact in float32, as are the sums of such products.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_pe.rotations.lookup import Table, guarded, row_or_guard, take
from keras_pe.signal.formula import Float64Array, sines_and_cosines
from keras_pe.signal.layouts import Layout, assemble

WHOLE = (1, 2**8, 2**16)  # units of the digits of a whole position: 8 bits, 8 bits, and the rest
FRACTION_BITS = 10  # of each digit of a fraction
LEADING = 2.0**13  # leading turns are multiples of its inverse
REST = 0.1  # turns that a rest of a fraction may make, rounded to 2**-27 of a turn


class FractionalEncoding:
    """The encoding of one axis at positions from `low` to below `high`, counted from `start_index`."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str, low: int, high: int
    ) -> None:
        self._channels, self._layout, self._start_index, self._dtype = channels, layout, start_index, dtype
        self._low, self._high = low, high
        rates = 1.0 / timescales
        digits, most = 0, float(np.max(np.abs(rates), initial=0.0)) / (2 * np.pi)
        while most / 2 * 2.0 ** (-FRACTION_BITS * digits) > REST:
            digits += 1
        self._fraction_digits = digits
        units = [*WHOLE, *(2.0 ** (-FRACTION_BITS * (digit + 1)) for digit in range(digits))]
        turns = [_turns(unit, timescales) for unit in units]
        leading = [np.round(each * LEADING) / LEADING for each in turns]
        trailing = [each - first for each, first in zip(turns, leading, strict=True)]
        self._rates = Table(rates.astype(dtype))
        self._leading = [Table(each.astype(dtype)) for each in leading]
        self._trailing = [Table(each.astype(dtype)) for each in (rates / (2 * np.pi), *trailing)]
        self._one_row, self._zero = Table(guarded(np.zeros((1, 1), dtype))), Table(np.zeros(1, "int32"))

    def at(self, whole: Any, nearest: Any, fraction: Any) -> Any:
        """Returns the signal at `nearest + fraction`: `(*nearest.shape, channels)`.

        Args:
            whole: The largest integers up to the positions, int32; they must be in reach.
            nearest: The integers nearest to the positions, int32.
            fraction: What is left of the positions, from -0.5 to 0.5.
        """
        inside = ops.logical_and(whole >= self._low, whole < self._high)
        nearest = ops.where(inside, nearest, 0) + self._start_index
        # Adds nothing, and fails where a position is out of reach.
        fraction = ops.cast(fraction, self._dtype)
        row = row_or_guard(ops.cast(ops.logical_not(inside), "int32"), self._zero)
        fraction = ops.expand_dims(fraction, -1) + take(self._one_row.tensor(), row)
        if self._dtype == "float64":
            angles = ops.cast(ops.expand_dims(nearest, -1), "float64") + fraction
            angles = angles * self._rates.tensor()
            return assemble(ops.sin(angles), ops.cos(angles), self._channels, self._layout, xp=ops)
        return assemble(*self._rotations(nearest, fraction), self._channels, self._layout, xp=ops)

    def _rotations(self, nearest: Any, fraction: Any) -> tuple[Any, Any]:
        numbers, rest = self._digits(nearest, fraction)
        turns = self._weighted(numbers, self._leading)
        turns = turns - ops.round(turns)
        small = self._weighted([rest, *numbers], self._trailing)
        # Half a turn changes the signs of both, and leaves an angle of at most a quarter of a turn.
        halves = ops.round((turns + small) * 2.0)
        angles = ((turns - halves * 0.5) + small) * (2 * np.pi)
        sign = 1.0 - 2.0 * ops.abs(halves)
        return ops.sin(angles) * sign, ops.cos(angles) * sign

    def _weighted(self, numbers: list[Any], rows: list[Table]) -> Any:
        """Returns the sum of `(..., 1)` numbers times rows of timescales."""
        total, *others = (number * row.tensor() for number, row in zip(numbers, rows, strict=True))
        for each in others:
            total = total + each
        return total

    def _digits(self, nearest: Any, fraction: Any) -> tuple[list[Any], Any]:
        """Returns a number for each unit, `(..., 1)`, and the rest of the fraction."""
        offset = 2**26  # divisions of negative integers differ
        shifted = nearest + offset
        upper = shifted // WHOLE[2]
        middle = (shifted - upper * WHOLE[2]) // WHOLE[1]
        lower = shifted - upper * WHOLE[2] - middle * WHOLE[1]
        whole = (lower, middle, upper - offset // WHOLE[2])
        numbers = [ops.expand_dims(ops.cast(digit, self._dtype), -1) for digit in whole]
        for digit in range(self._fraction_digits):
            unit = 2.0 ** (-FRACTION_BITS * (digit + 1))
            number = ops.round(fraction * (1 / unit))
            fraction = fraction - number * unit
            numbers.append(number)
        return numbers, fraction


def _turns(unit: float, timescales: Float64Array) -> Float64Array:
    """Returns the turns that `unit` positions make, whole ones left out: from -0.5 to 0.5."""
    turns: Float64Array = np.arctan2(*sines_and_cosines(np.asarray(unit), timescales)) / (2 * np.pi)
    return turns
