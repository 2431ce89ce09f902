"""Compares the failures of two runtimes, and finds causes that only this comparison shows."""

import math
from collections.abc import Sequence
from dataclasses import replace

from keras_pe.export.parity.diagnosis.relations import close, distance_where_finite
from keras_pe.export.results import Cause, Comparison, Finding, Problem, RuntimeResult
from keras_pe.export.runtimes.runtime import RuntimeName, Version

_ALIKE = 1e-3  # largest relative distance between the differences of two runtimes that fail alike
_NO_ANGLE = 1e-9  # angles below this are rounding errors of the cosine
_MOST = 0.5  # least share of wrong values from which rounding may choose the worst one


def is_alike(one: RuntimeResult, other: RuntimeResult) -> bool:
    """Whether two runtimes fail in equal cases, by equal amounts to a thousandth, with equal outputs."""
    if one.passed or (one.status, one.error, len(one.cases)) != (other.status, other.error, len(other.cases)):
        return False
    for mine, theirs in zip(one.cases, other.cases, strict=True):
        if (mine.status, bool(mine.error)) != (theirs.status, bool(theirs.error)):
            return False
        if [each.output for each in mine.comparisons] != [each.output for each in theirs.comparisons]:
            return False
        if not all(map(_is_off_alike, mine.comparisons, theirs.comparisons)):
            return False
    return _has_same_answer(one, other)


def _is_off_alike(one: Comparison, other: Comparison) -> bool:
    """Whether two comparisons of one output have equal verdicts and equal differences from the reference."""
    facts = ((each.passed, each.problem, each.actual_shape, each.actual_dtype) for each in (one, other))
    if len(set(facts)) > 1:
        return False
    shares = one.fraction_out_of_tolerance, other.fraction_out_of_tolerance
    is_infinite = one.problem is Problem.NONFINITE  # the worst values then say nothing about the others
    if is_infinite and not (math.isclose(*shares, rel_tol=_ALIKE) and _is_turned_alike(one, other)):
        return False
    least = min(one.max_abs_diff, other.max_abs_diff)
    slack = one.tolerance + _ALIKE * (least if math.isfinite(least) else min(one.rms, other.rms))
    pairs = ((one.max_abs_diff, other.max_abs_diff), (one.rms, other.rms))
    return all(_is_near(*pair, slack) for pair in pairs) and _has_same_worst(one, other, slack)


def _has_same_worst(one: Comparison, other: Comparison, slack: float) -> bool:
    """Whether the values with the largest difference are equal, at one index.

    If most values are off, rounding may choose another index. The differences there and the angles must then be equal.
    """
    mine, theirs = (math.nan if each.actual is None else each.actual for each in (one, other))
    if one.worst_index == other.worst_index:
        return _is_near(mine, theirs, slack)
    is_off_alike = _is_near(mine - (one.truth or 0.0), theirs - (other.truth or 0.0), slack)
    is_spread = min(one.fraction_out_of_tolerance, other.fraction_out_of_tolerance) > _MOST
    return is_spread and is_off_alike and _is_turned_alike(one, other)


def _is_turned_alike(one: Comparison, other: Comparison) -> bool:
    """Whether the finite values of two outputs have equal angles to those of the reference."""
    angles = (1.0 - (each.cosine or 0.0) for each in (one, other))
    return math.isclose(*angles, rel_tol=4 * _ALIKE, abs_tol=_NO_ANGLE)


def _is_near(one: float, other: float, slack: float) -> bool:
    """Whether two numbers are equal up to a slack. A NaN or an infinity is only near itself."""
    is_finite = math.isfinite(one) and math.isfinite(other)
    return abs(one - other) <= slack if is_finite else one == other or (math.isnan(one) and math.isnan(other))


def _has_same_answer(one: RuntimeResult, other: RuntimeResult) -> bool:
    """Whether two runtimes returned equal arrays in their worst case, if both have the same worst case."""
    mine, theirs = one.recording, other.recording
    if mine is None or theirs is None or mine.case != theirs.case:
        return True
    if mine.actual.keys() != theirs.actual.keys():
        return False
    compared = [each for case in one.cases if case.name == mine.case for each in case.comparisons]
    for each in (each for each in compared if each.problem in (None, Problem.NONFINITE)):
        expected, actual = mine.expected[each.output], mine.actual[each.output]
        off = distance_where_finite(expected, actual)
        if not close(actual, theirs.actual[each.output], each.tolerance + _ALIKE * off):
            return False
    return True


def compare_runtimes(results: Sequence[RuntimeResult]) -> list[RuntimeResult]:
    """Returns the results with the causes that only a comparison of runtimes shows."""
    return [
        result if result.passed else _with_served_file(_with_release(result, results), results) for result in results
    ]


def _with_release(result: RuntimeResult, results: Sequence[RuntimeResult]) -> RuntimeResult:
    """Adds the finding that another release of the runtime passes with the same file."""
    family = RuntimeName.parse(result.runtime).family
    for other in results:
        is_same = (other.subject, RuntimeName.parse(other.runtime).family) == (result.subject, family)
        if is_same and other.passed and _release(other) not in ("", _release(result)) and result.version:
            evidence = (
                f"{_release(other)} passes with the same file and inputs, and {_release(result)} fails. The answer "
                "depends on the release."
            )
            layer = next((each.layer for each in result.findings if each.layer), None)
            return replace(result, findings=(Finding(Cause.OTHER_RELEASE, evidence, layer), *_known(result)))
    return result


def _with_served_file(result: RuntimeResult, results: Sequence[RuntimeResult]) -> RuntimeResult:
    """Adds the layers and causes of a local file with equal outputs to the result of a server."""
    if result.format != "served":
        return result
    for other in results:
        if other.format not in ("served", "keras") and is_alike(result, other):
            evidence = (
                f"The server differs from the model by the same amounts as {other.runtime} with {other.subject}. "
                "The fault is in the file, not in the server."
            )
            layer = next((each.layer for each in other.findings if each.layer), None)
            findings = (Finding(Cause.SERVED_FILE, evidence, layer), *_known(other))
            return replace(result, findings=findings, layers=other.layers, proof=other.proof)
    return result


def _known(result: RuntimeResult) -> tuple[Finding, ...]:
    return tuple(finding for finding in result.findings if finding.cause is not Cause.UNKNOWN)


def _release(result: RuntimeResult) -> str:
    """Returns the package without a variant, and its version."""
    return str(Version.parse(result.version).package_release)
