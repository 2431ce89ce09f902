"""The signal at fractional positions in Keras operations, with the same error bound.

A fraction has no digits to look up, so the angle is formed, but in turns: whole turns change nothing and are dropped
without loss. The position is cut into short numbers, and the turns of one unit of each are known in float64. Their
leading bits times a short number are exact in float32, as are the sums of a few such products.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_pe.rotations.lookup import Table, append_guard, row_or_guard, take
from keras_pe.rotations.static_values import align_dtypes
from keras_pe.signal.formula import Float64Array, sines_and_cosines
from keras_pe.signal.layouts import Layout, assemble

WHOLE = (1, 2**8, 2**16)  # units of the digits of a whole position: 8 bits, 8 bits, and the rest
FRACTION_BITS = 10  # bits of each digit of a fraction
PART_BITS = 2 * FRACTION_BITS  # bits of each part of a fraction in parts, except the last
REST = 0.1  # turns that a rest of a fraction may make, rounded to 2**-27 of a turn
LEADING = (13, 24)  # leading turns are multiples of 2**-13, the turns after them of 2**-24
FEW = 2  # digits of a fraction with which one exact sum is enough: the other turns are then small
TOGETHER = 7  # products of up to 256 turns, of which float32 holds the sum exactly


class FractionalEncoding:
    """The encoding of one axis at positions from `low` to below `high`, counted from `start_index`."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str, low: int, high: int
    ) -> None:
        self._channels, self._layout, self._start_index, self._dtype = channels, layout, start_index, dtype
        self._low, self._high = low, high
        rates = 1.0 / (2 * np.pi * timescales)  # turns of a position
        digits, most = 0, float(np.max(np.abs(rates), initial=0.0))
        while most / 2 * 2.0 ** (-FRACTION_BITS * digits) > REST:
            digits += 1
        self._fraction_digits = digits
        units = [*WHOLE, *(2.0 ** (-FRACTION_BITS * (digit + 1)) for digit in range(digits))]
        left = [_turns(unit, timescales) for unit in units]
        self._exact: list[list[Table]] = []
        for bits in LEADING if digits > FEW else LEADING[:1]:
            leading = [np.round(each * 2.0**bits) / 2.0**bits for each in left]
            left = [each - first for each, first in zip(left, leading, strict=True)]
            self._exact.append([Table(each.astype(dtype)) for each in leading])
        of_rest = rates * 2.0 ** (-FRACTION_BITS * digits)
        self._trailing = [Table(each.astype(dtype)) for each in (*left, of_rest)]
        self._one_row, self._zero = Table(append_guard(np.zeros((1, 1), dtype))), Table(np.zeros(1, "int32"))

    def at(self, whole: Any, nearest: Any, fraction: Any) -> Any:
        """Returns the signal at `nearest + fraction`: `(*nearest.shape, channels)`.

        Args:
            whole: The largest integers up to the positions, int32; they must be in reach.
            nearest: The integers nearest to the positions, int32.
            fraction: The rest of the positions, from -0.5 to 0.5: one tensor of floats, or a list of float32 parts.
                Each part is a multiple of `2**-PART_BITS` but the last, and counts `2**-PART_BITS` of the one before.
        """
        inside = ops.logical_and(whole >= self._low, whole < self._high)
        nearest = ops.where(inside, nearest, 0) + self._start_index
        lower, *others = self._whole_digits(nearest)
        # The row adds nothing, or fails, or is NaN where a position is out of reach.
        row = row_or_guard(ops.cast(ops.logical_not(inside), "int32"), self._zero, self._low, self._high)
        lower = lower + take(self._one_row.tensor(), row)
        numbers, rest = self._fraction_digits_of(fraction if isinstance(fraction, list) else [fraction])
        rotations = self._rotations([lower, *others, *numbers], rest)
        return assemble(*rotations, self._channels, self._layout, xp=ops)

    def _rotations(self, numbers: list[Any], rest: Any) -> tuple[Any, Any]:
        turns, *more = (_exact_turns(numbers, rows) for rows in self._exact)
        for each in more:
            turns = turns + each
            turns = turns - ops.round(turns)
        small = _weigh([*numbers, rest], self._trailing)
        # Half a turn changes the signs of both, and leaves an angle of at most a quarter of a turn.
        halves = ops.round((turns + small) * 2.0)
        angles = ((turns - halves * 0.5) + small) * (2 * np.pi)
        sign = 1.0 - 2.0 * ops.abs(halves)
        return ops.sin(angles) * sign, ops.cos(angles) * sign

    def _whole_digits(self, nearest: Any) -> list[Any]:
        """Returns the number of each whole unit, `(..., 1)`."""
        offset = 2**26  # divisions of negative integers differ
        shifted = nearest + offset
        upper = shifted // WHOLE[2]
        middle = (shifted - upper * WHOLE[2]) // WHOLE[1]
        lower = shifted - upper * WHOLE[2] - middle * WHOLE[1]
        whole = (lower, middle, upper - offset // WHOLE[2])
        return [ops.expand_dims(ops.cast(digit, self._dtype), -1) for digit in whole]

    def _fraction_digits_of(self, parts: list[Any]) -> tuple[list[Any], Any]:
        """Returns the number of each fractional unit, and what is left, in the last unit: `(..., 1)` each.

        A fraction of 64 bits is cut in 64 bits: the numbers are short, and what is left needs no more than 32.
        """
        rest, *later = parts
        numbers: list[Any] = []
        for digit in range(self._fraction_digits):
            if later and digit and digit % 2 == 0:
                rest, *later = later  # the two digits are all of a part
            rest = rest * 2.0**FRACTION_BITS
            number = ops.round(rest)
            rest = rest - number
            numbers.append(self._column(number))
        rest = self._column(rest)
        taken = -(-self._fraction_digits // 2) or 1
        for part, place in zip(later[:2], range(taken, taken + 2), strict=False):
            rest = rest + self._column(part) * 2.0 ** (FRACTION_BITS * self._fraction_digits - PART_BITS * place)
        return numbers, rest

    def _column(self, numbers: Any) -> Any:
        return ops.expand_dims(ops.cast(numbers, self._dtype), -1)


def _exact_turns(numbers: list[Any], rows: Sequence[Table]) -> Any:
    """Returns the sum of numbers times leading turns, whole turns left out: from -0.5 to 0.5."""
    turns: Any = None
    for first in range(0, len(rows), TOGETHER):
        some = slice(first, first + TOGETHER)
        total = _weigh(numbers[some], rows[some])
        total = total if turns is None else turns + total
        turns = total - ops.round(total)
    return turns


def _weigh(numbers: list[Any], rows: Sequence[Table]) -> Any:
    """Returns the sum of `(..., 1)` numbers times rows of timescales."""
    pairs = (align_dtypes(number, row.tensor()) for number, row in zip(numbers, rows, strict=True))
    total, *others = (number * row for number, row in pairs)
    for each in others:
        total = total + each
    return total


def _turns(unit: float, timescales: Float64Array) -> Float64Array:
    """Returns the turns that `unit` positions make, whole ones left out: from -0.5 to 0.5."""
    sines, cosines = sines_and_cosines(np.asarray(unit), timescales, far=1.0)  # as they will be multiplied by a number
    turns: Float64Array = np.arctan2(sines, cosines) / (2 * np.pi)
    return turns
