"""The differences of two arrays: exact for integers and texts, and with NaNs and infinities for floats."""

from typing import NamedTuple

import numpy as np

from keras_pe.export.comparison.float_types import is_a_limit, is_float
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.results import Array

EXACT = frozenset("iub")  # dtype kinds of integers and booleans


class Differences(NamedTuple):
    """The differences of values from their target.

    Attributes:
        target: The reference of the differences.
        absolute: The absolute differences in float64, infinity if only one side is a NaN or an infinity.
        open_values: Number of values that are not compared; their differences are 0.
        are_finite: Whether all arrays are free of NaNs and infinities.
    """

    target: Array
    absolute: Array
    open_values: int
    are_finite: bool


def differences(expected: Array, actual: Array, truth: Array | None = None, *, is_coarse: bool = False) -> Differences:
    """Returns the differences of an array from the truth, or from the reference's output without a truth.

    The differences have the shape of the arrays, whose first axis may be rows. Integers are subtracted exactly, and
    texts differ by 1. A value is not compared if Keras overflows and the truth does not, since Keras' own error is then
    infinite.

    Args:
        expected: The reference's array.
        actual: The runtime's array, of the same shape.
        truth: The float64 rebuild's array, if there is one.
        is_coarse: Whether to skip every value that is not finite in Keras or in the truth.
    """
    if not is_float(expected.dtype):
        return Differences(expected, _exact_difference(expected, actual), 0, True)
    target = expected if truth is None else _with_limits(expected, actual, truth)
    difference, are_finite = _absolute_difference(target, actual)
    if truth is None and not is_coarse:
        return Differences(target, difference, 0, are_finite)
    is_finite = np.isfinite(wide(expected))
    is_sound = np.isfinite(wide(target))
    is_open = ~is_finite | ~is_sound if is_coarse else ~is_finite & is_sound
    difference[is_open] = 0.0
    return Differences(target, difference, int(is_open.sum()), are_finite and bool(is_finite.all()))


def _with_limits(expected: Array, actual: Array, truth: Array) -> Array:
    """Returns the truth, but Keras' value if it is the limit of a type, and the runtime's value if that equals Keras'.

    Relative to such a limit, all other differences would vanish.
    """
    is_limit = is_a_limit(expected, truth)
    if not is_limit.any():
        return truth
    own, given = wide(expected), wide(actual)
    is_same = absolute_difference(own, given) <= STRICT.shares[expected.dtype.name] * np.abs(own)
    return np.where(is_limit, np.where(is_same, given, own), truth)


def _exact_difference(expected: Array, actual: Array) -> Array:
    """Returns |expected - actual|, subtracted as integers, since float64 cannot represent 2**53 + 1.

    The difference of unequal texts is 1.
    """
    differs = np.asarray(expected != actual)
    if not differs.any() or not {expected.dtype.kind, actual.dtype.kind} <= EXACT:
        return differs.astype(np.float64)
    larger, smaller = np.maximum(expected, actual), np.minimum(expected, actual)
    # Modulo 2**64, the difference is right for all signs.
    difference: Array = (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)
    return difference


def wide(array: Array) -> Array:
    """Returns an array in float64, itself if it has this type."""
    return array.astype(np.float64, copy=False)


def absolute_difference(target: Array, values: Array) -> Array:
    """Returns |target - values| in float64: 0 if both are NaN or the same infinity, infinity if only one is."""
    return _absolute_difference(target, values)[0]


def _absolute_difference(target: Array, values: Array) -> tuple[Array, bool]:
    """Returns the result of `absolute_difference`, and whether both sides are finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        # NumPy returns a scalar for arrays without axes.
        difference: Array = np.asarray(np.subtract(target, values, dtype=np.float64))
        np.abs(difference, out=difference)
    if np.isfinite(difference.max(initial=0.0)):  # the maximum of an array with a NaN is NaN
        return difference, True
    target, values = wide(target), wide(values)
    same = (target == values) | (np.isnan(target) & np.isnan(values))
    return np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf)), False
