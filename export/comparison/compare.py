"""Compares the outputs of a runtime with the expected outputs, in pure NumPy, without a runtime, Keras or printing."""

from collections.abc import Iterable, Mapping

import numpy as np

from keras_pe.export.comparison.differences import EXACT, absolute_difference, differences, wide
from keras_pe.export.comparison.float_types import epsilon, is_float
from keras_pe.export.comparison.output_decisions import DecisionCount, count_decisions
from keras_pe.export.comparison.tolerance import (
    DECISION_FACTOR,
    FAR_OUT,
    MAX_FACTOR,
    STRICT,
    TolerancePolicy,
    noise_floors,
)
from keras_pe.export.results import Array, Comparison, Problem


def compare_outputs(
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
    truth: Mapping[str, Array] | None = None,
    *,
    own: Mapping[str, Array] | None = None,
    noise: Mapping[str, Array] | None = None,
    policy: TolerancePolicy = STRICT,
) -> tuple[Comparison, ...]:
    """Compares every output by name. A missing or extra output is a failed comparison.

    Args:
        expected: The reference's outputs.
        actual: The runtime's outputs.
        truth: The outputs of the float64 rebuild, if there is one.
        own: The outputs of the model in its own precision, if `expected` has a wider one.
        noise: Noise floors from other measurements, by output, as `noise_floors` returns them.
        policy: The tolerance policy.

    Returns:
        One comparison for each name on either side, the expected ones first.
    """
    truth, own, noise = truth or {}, own or {}, noise or {}
    failed = incomparable(expected, actual, policy)
    return tuple(
        failed.get(name)
        or compare_arrays(
            name, expected[name], actual[name], truth.get(name), own=own.get(name), noise=noise.get(name), policy=policy
        )
        for name in dict.fromkeys([*expected, *failed])
    )


def incomparable(
    expected: Mapping[str, Array], actual: Mapping[str, Array], policy: TolerancePolicy
) -> dict[str, Comparison]:
    """Returns a failed comparison for each output that cannot be compared, whatever its values."""
    failed: dict[str, Comparison] = {}
    for name, array in {**actual, **expected}.items():
        if (problem := _problem(expected.get(name), actual.get(name), policy)) is not None:
            failed[name] = _structural(name, problem, array, actual.get(name))
    return failed


def may_be_rounding(compared: Iterable[Comparison], limit: float = FAR_OUT) -> bool:
    """Whether every failure, and every value near its tolerance, is small: below a limit, in tolerances.

    Unknown noise gives no limit.
    """
    near = [each for each in compared if not each.passed or each.max_abs_diff > each.tolerance / 2]
    return bool(near) and all(
        each.problem is None
        and each.tolerance > 0
        and (each.noise_floor is None or each.max_abs_diff < limit * each.tolerance)
        for each in near
    )


def _problem(expected: Array | None, actual: Array | None, policy: TolerancePolicy) -> Problem | None:
    """Returns the problem that prevents a comparison of two arrays, or None. An array is None if it is missing."""
    if actual is None:
        return Problem.MISSING
    if expected is None:
        return Problem.EXTRA
    if actual.shape != expected.shape:
        return Problem.SHAPE
    return None if policy.serves(expected.dtype, actual.dtype) else Problem.DTYPE


def compare_arrays(
    output: str,
    expected: Array,
    actual: Array,
    truth: Array | None = None,
    *,
    own: Array | None = None,
    noise: Array | None = None,
    policy: TolerancePolicy = STRICT,
) -> Comparison:
    """Compares one output.

    NaN equals NaN, and an infinity equals the same infinity. Against a number, they differ at any tolerance.

    Args:
        output: The output's name.
        expected: The reference's array, in the precision in which the runtime computes.
        actual: The runtime's array.
        truth: The float64 rebuild's array, if there is one. The differences are then measured against it, and
            `expected` gives the noise floor.
        own: The array of the model in its own precision, if that differs.
        noise: Noise floors from other measurements, as `noise_floors` returns them; the larger ones count.
        policy: The tolerance policy.
    """
    if (problem := _problem(expected, actual, policy)) is not None:
        return _structural(output, problem, expected, actual)
    if not is_float(expected.dtype):
        return _compare_exact(output, expected, actual, policy)
    floors = np.zeros(2) if noise is None else noise
    if policy.allowance.precision is not None:
        floors = np.zeros(expected.shape) if noise is None else noise
    elif truth is not None:
        floors = np.maximum(noise_floors(expected, truth), floors)
    gap = None
    if own is not None and own.shape == expected.shape:
        gap = float(absolute_difference(own, expected).max(initial=0.0))
    return _compare_floats(output, expected, actual, truth, floors, policy, gap)


def _compare_floats(
    output: str,
    expected: Array,
    actual: Array,
    truth: Array | None,
    floors: Array,
    policy: TolerancePolicy,
    gap: float | None,
) -> Comparison:
    """Measures the difference of two float arrays of equal shape."""
    target, difference, open_values, are_finite = differences(expected, actual, truth, is_coarse=policy.is_coarse)
    target, values = wide(target), wide(actual)
    if not are_finite:  # a NaN on both sides is not a comparison
        open_values += int((np.isnan(target) & np.isnan(values)).sum())
    clash = not np.isfinite(difference).all()
    noise = policy.floor(expected, floors)
    allowed = policy.tolerance(output, expected, None if truth is None else target, noise)
    factor = MAX_FACTOR if policy.allowance.precision is None else DECISION_FACTOR
    explained = policy.rounding_tolerance(expected, noise, has_truth=truth is not None, factor=factor)
    decided = count_decisions(target, values, explained) or DecisionCount(0, 0)
    worst = _worst(difference, allowed)
    tolerance, floor = (_at(each, worst) for each in (allowed, noise))
    largest, excess = float(difference.max(initial=0.0)), _largest_ratio(difference, allowed)
    is_known = truth is not None or floors.any()
    magnitude = np.abs(target)
    usable = np.isfinite(magnitude) & (magnitude > 0)
    # The spacing is that of the larger value. At an expected 0, any rounding error would otherwise be millions of ULPs.
    spacing = np.maximum(np.maximum(magnitude, np.abs(values)) * epsilon(expected.dtype) / 2, np.finfo(np.float64).tiny)
    with np.errstate(invalid="ignore"):
        ulps = np.where(difference > 0, difference / spacing, 0.0)
    return Comparison(
        output=output,
        passed=excess <= 1,
        problem=Problem.NONFINITE if clash else None,
        shape=expected.shape,
        dtype=expected.dtype.name,
        count=difference.size - open_values,
        max_abs_diff=largest,
        max_rel_diff=float((difference[usable] / magnitude[usable]).max(initial=0.0)),
        max_ulp=float(np.nanmax(ulps, initial=0.0)) if not clash else float("inf"),
        rms=_rms(difference),
        cosine=_cosine(target, values),
        fraction_out_of_tolerance=float((difference > allowed).mean()) if difference.size else 0.0,
        worst_index=worst,
        expected=None if worst is None else float(expected[worst]),
        truth=None if worst is None else float(target[worst]),
        actual=None if worst is None else float(values[worst]),
        argmax_agreement=_argmax_agreement(target, values),
        decisions=decided.total,
        changed_decisions=decided.changed,
        tied_decisions=decided.ties,
        tolerance=tolerance,
        tolerance_ratio=excess,
        min_passing_tolerance=largest,
        noise_floor=floor if is_known else None,
        noise_ratio=_largest_ratio(difference, noise) if is_known and np.any(noise) else None,
        precision_gap=gap,
    )


def _worst(difference: Array, allowed: float | Array) -> tuple[int, ...] | None:
    """Returns the index of the value with the largest difference relative to its tolerance; None for an empty array."""
    if not difference.size:
        return None
    if isinstance(allowed, np.ndarray):
        difference = difference / np.maximum(allowed, np.finfo(np.float64).tiny)
    return tuple(int(place) for place in np.unravel_index(int(difference.argmax()), difference.shape))


def _largest_ratio(difference: Array, to: float | Array) -> float:
    """Returns the largest ratio of a difference to a limit, which is one for all values or one for each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(difference > 0, np.divide(difference, to), 0.0)
    return float(ratios.max(initial=0.0))


def _at(values: float | Array, place: tuple[int, ...] | None) -> float:
    """Returns one value of an array, or a scalar as it is; 0 for an empty array."""
    if not isinstance(values, np.ndarray):
        return values
    return float(values[place]) if place is not None else 0.0


def _compare_exact(output: str, expected: Array, actual: Array, policy: TolerancePolicy) -> Comparison:
    """Compares integers, booleans and texts, which must be equal."""
    difference = differences(expected, actual).absolute
    differs, numbers = difference > 0, {expected.dtype.kind, actual.dtype.kind} <= EXACT
    worst = _worst(difference, 0.0)
    largest = float(difference.max(initial=0.0))
    magnitude = np.abs(expected.astype(np.float64)) if numbers else np.ones_like(difference)
    return Comparison(
        output=output,
        passed=not (policy.compares_integers and differs.any()),
        problem=None,
        shape=expected.shape,
        dtype=expected.dtype.name,
        count=differs.size,
        max_abs_diff=largest,
        max_rel_diff=float((difference[magnitude > 0] / magnitude[magnitude > 0]).max(initial=0.0)),
        max_ulp=largest,
        rms=_rms(difference),
        fraction_out_of_tolerance=float(differs.mean()) if differs.size else 0.0,
        decisions=differs.size if numbers else 0,
        changed_decisions=int(differs.sum()) if numbers else 0,
        worst_index=worst,
        expected=float(expected[worst]) if numbers and worst is not None else None,
        truth=float(expected[worst]) if numbers and worst is not None else None,
        actual=float(actual[worst]) if numbers and worst is not None else None,
        tolerance_ratio=_largest_ratio(difference, 0.0),
        min_passing_tolerance=largest,
    )


def _rms(difference: Array) -> float:
    """Returns the root mean square of the finite values. The scaling avoids the overflow of their squares."""
    finite = difference[np.isfinite(difference)]
    largest = float(finite.max(initial=0.0))
    return largest * float(np.sqrt(np.mean(np.square(finite / largest)))) if largest > 0 else 0.0


def _cosine(target: Array, values: Array) -> float | None:
    """Returns the cosine of two arrays as vectors, over the values that are finite in both."""
    finite = np.isfinite(target) & np.isfinite(values)
    a, b = (each[finite] for each in (target, values))
    a, b = (each / (np.abs(each).max(initial=0.0) or 1.0) for each in (a, b))  # the square of 1e155 overflows
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.clip(a @ b / lengths, -1.0, 1.0)) if lengths > 0 else None


def _argmax_agreement(target: Array, values: Array) -> float | None:
    """Returns the share of rows with equal argmax, if the rows are probabilities."""
    if target.ndim < 2 or target.shape[-1] < 2 or not target.size:
        return None
    if not ((target >= 0).all() and np.abs(target.sum(axis=-1) - 1).max() < 1e-3):
        return None
    return float((target.argmax(axis=-1) == values.argmax(axis=-1)).mean())


def _structural(output: str, problem: Problem, expected: Array, actual: Array | None = None) -> Comparison:
    """Returns a failed comparison for an output that cannot be compared."""
    return Comparison(
        output=output,
        passed=False,
        problem=problem,
        shape=expected.shape,
        dtype=expected.dtype.name,
        actual_shape=None if actual is None else actual.shape,
        actual_dtype=None if actual is None else actual.dtype.name,
    )
