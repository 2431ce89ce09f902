"""Compares what a runtime returned with what was expected. Pure NumPy: no runtime, no Keras, no printing."""

from collections.abc import Mapping

import numpy as np

from keras_pe.export.comparison.rounding import MAX_FACTOR, is_a_limit, noise_floor
from keras_pe.export.comparison.tolerance import RELATIVE, epsilon, flat_tolerance, is_float
from keras_pe.export.results import Array, Comparison


def compare_outputs(
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
    truth: Mapping[str, Array] | None = None,
    *,
    own: Mapping[str, Array] | None = None,
    noise: Mapping[str, float] | None = None,
) -> tuple[Comparison, ...]:
    """Compares every output, by name.

    A missing or an extra output is a failed comparison of its own, never left out.

    Args:
        expected: The reference's outputs.
        actual: The runtime's outputs.
        truth: The outputs of the float64 rebuild, if there is one.
        own: The outputs of the model in its own precision, where `expected` are those of a wider one.
        noise: The error that Keras makes in rounding where it is known to be larger than it is here, by output.

    Returns:
        One comparison for each name on either side, the expected ones first.
    """
    truth, own, noise = truth or {}, own or {}, noise or {}
    compared = [
        compare_arrays(name, array, actual[name], truth.get(name), own=own.get(name), noise=noise.get(name, 0.0))
        if name in actual
        else _structural(name, "missing", array)
        for name, array in expected.items()
    ]
    extra = [_structural(name, "extra", array) for name, array in actual.items() if name not in expected]
    return tuple(compared + extra)


def compare_arrays(
    output: str,
    expected: Array,
    actual: Array,
    truth: Array | None = None,
    *,
    own: Array | None = None,
    noise: float = 0.0,
) -> Comparison:
    """Compares one output.

    NaN equals NaN, and an infinity the same infinity; against a number they differ at any tolerance.

    Args:
        output: The output's name.
        expected: The reference's array, in the precision in which the runtime computes.
        actual: The runtime's array.
        truth: The float64 rebuild's array, if there is one. The differences are measured against it then, and
            `expected` gives the noise floor.
        own: The array of the model in its own precision, where that is another.
        noise: A noise floor that is known from elsewhere; the larger one counts, and of tolerances without one.
    """
    if actual.shape != expected.shape:
        return _structural(output, f"shape {actual.shape} instead of {expected.shape}", expected)
    if not dtype_serves(expected.dtype, actual.dtype):
        return _structural(output, f"dtype {actual.dtype} instead of {expected.dtype}", expected)
    if not is_float(expected.dtype):
        return _compare_exact(output, expected, actual)
    floor = max(noise_floor(expected, truth), noise) if truth is not None else None
    truth = None if truth is None else _with_limits(expected, actual, truth)
    tolerance = MAX_FACTOR * floor if floor is not None else max(flat_tolerance(expected), MAX_FACTOR * noise)
    gap = None
    if own is not None and own.shape == expected.shape:
        gap = float(absolute_difference(_wide(own), _wide(expected)).max(initial=0.0))
    return _compare_floats(output, expected, actual, truth, floor, tolerance, gap)


def _with_limits(expected: Array, actual: Array, truth: Array) -> Array:
    """Returns the truth with Keras' answer where that is the limit of a type, and the runtime's where that is the same.

    Next to it no other number has any size.
    """
    is_limit = is_a_limit(expected, truth)
    if not is_limit.any():
        return truth
    own, given = _wide(expected), _wide(actual)
    is_same = absolute_difference(own, given) <= RELATIVE[expected.dtype.name] * np.abs(own)
    return np.where(is_limit, np.where(is_same, given, own), truth)


def _compare_floats(
    output: str,
    expected: Array,
    actual: Array,
    truth: Array | None,
    floor: float | None,
    tolerance: float,
    gap: float | None,
) -> Comparison:
    """Measures the difference of two float arrays of one shape."""
    target, values = _wide(expected if truth is None else truth), _wide(actual)
    difference = absolute_difference(target, values)
    overflown = ~np.isfinite(_wide(expected)) & np.isfinite(target)
    difference[overflown] = 0.0  # Keras' own error is infinite there: it leaves nothing to compare
    clash = not np.isfinite(difference).all()
    worst = np.unravel_index(int(difference.argmax()), difference.shape) if difference.size else None
    largest = float(difference[worst]) if worst is not None else 0.0
    magnitude = np.abs(target)
    usable = np.isfinite(magnitude) & (magnitude > 0)
    # The spacing of the larger value: at an expected 0 any rounding would be millions of units.
    spacing = np.maximum(np.maximum(magnitude, np.abs(values)) * epsilon(expected.dtype) / 2, np.finfo(np.float64).tiny)
    with np.errstate(invalid="ignore"):
        ulps = np.where(difference > 0, difference / spacing, 0.0)
    return Comparison(
        output=output,
        passed=largest <= tolerance,
        problem="NaN or infinity against a number" if clash else None,
        shape=expected.shape,
        dtype=expected.dtype.name,
        count=difference.size - int(overflown.sum()),
        max_abs_diff=largest,
        max_rel_diff=float((difference[usable] / magnitude[usable]).max(initial=0.0)),
        max_ulp=float(np.nanmax(ulps, initial=0.0)) if not clash else float("inf"),
        rms=_rms(difference) if difference.size else 0.0,
        cosine=_cosine(target, values),
        fraction_out_of_tolerance=float((difference > tolerance).mean()) if difference.size else 0.0,
        worst_index=None if worst is None else tuple(int(i) for i in worst),
        expected=None if worst is None else float(expected[worst]),
        truth=None if worst is None else float(target[worst]),
        actual=None if worst is None else float(values[worst]),
        argmax_agreement=_argmax_agreement(target, values),
        tolerance=tolerance,
        min_passing_tolerance=largest,
        noise_floor=floor,
        noise_ratio=largest / floor if floor else None,
        precision_gap=gap,
    )


def _compare_exact(output: str, expected: Array, actual: Array) -> Comparison:
    """Compares integers, booleans and texts, where only equal is right."""
    differs = expected != actual
    numbers = expected.dtype.kind in "iub"
    difference = _exact_difference(expected, actual) if numbers else differs.astype(np.float64)
    worst = np.unravel_index(int(difference.argmax()), difference.shape) if difference.size else None
    largest = float(difference[worst]) if worst is not None else 0.0
    magnitude = np.abs(expected.astype(np.float64)) if numbers else np.ones_like(difference)
    return Comparison(
        output=output,
        passed=not differs.any(),
        problem=None,
        shape=expected.shape,
        dtype=expected.dtype.name,
        count=differs.size,
        max_abs_diff=largest,
        max_rel_diff=float((difference[magnitude > 0] / magnitude[magnitude > 0]).max(initial=0.0)),
        max_ulp=largest,
        rms=_rms(difference) if difference.size else 0.0,
        fraction_out_of_tolerance=float(differs.mean()) if differs.size else 0.0,
        worst_index=None if worst is None else tuple(int(i) for i in worst),
        expected=float(expected[worst]) if numbers and worst is not None else None,
        truth=float(expected[worst]) if numbers and worst is not None else None,
        actual=float(actual[worst]) if numbers and worst is not None else None,
        min_passing_tolerance=largest,
    )


def _exact_difference(expected: Array, actual: Array) -> Array:
    """Returns |expected - actual| of integers, subtracted as integers: float64 cannot tell 2**53 from its neighbor."""
    larger, smaller = np.maximum(expected, actual), np.minimum(expected, actual)
    # Modulo 2**64 the difference is right whatever the signs.
    difference: Array = (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)
    return difference


def _wide(array: Array) -> Array:
    return array.astype(np.float64, copy=False)


def absolute_difference(target: Array, values: Array) -> Array:
    """Returns |target - values|, 0 where both are NaN or the same infinity, infinity where only one is."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference: Array = np.asarray(np.abs(target - values))  # of numbers without axes NumPy makes scalars
    if np.isfinite(difference).all():
        return difference
    same = (target == values) | (np.isnan(target) & np.isnan(values))
    return np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf))


def _rms(difference: Array) -> float:
    """Returns the root of the mean square; of differences that are too large to be squared as well."""
    largest = float(difference.max())
    return largest * float(np.sqrt(np.mean(np.square(difference / largest)))) if 0 < largest < np.inf else largest


def _cosine(target: Array, values: Array) -> float | None:
    """Returns the cosine of two arrays taken as vectors, over the values that are finite in both."""
    finite = np.isfinite(target) & np.isfinite(values)
    a, b = target[finite], values[finite]
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.clip(a @ b / lengths, -1.0, 1.0)) if lengths > 0 else None


def _argmax_agreement(target: Array, values: Array) -> float | None:
    """Returns the share of rows with the same largest place, where the rows are probabilities."""
    if target.ndim < 2 or target.shape[-1] < 2 or not target.size:
        return None
    if not ((target >= 0).all() and np.abs(target.sum(axis=-1) - 1).max() < 1e-3):
        return None
    return float((target.argmax(axis=-1) == values.argmax(axis=-1)).mean())


def dtype_serves(expected: np.dtype, actual: np.dtype) -> bool:
    """Whether a type may stand for another: itself, or a wider float (half precision exports through float32)."""
    if expected == actual:
        return True
    return is_float(expected) and is_float(actual) and epsilon(actual) < epsilon(expected) and actual != np.float64


def _structural(output: str, problem: str, array: Array) -> Comparison:
    """Returns the failed comparison of an output that cannot be compared."""
    return Comparison(output=output, passed=False, problem=problem, shape=array.shape, dtype=array.dtype.name)
