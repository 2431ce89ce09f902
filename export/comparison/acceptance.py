"""The verdict of a user who accepts more than the strict law, from what that has failed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.law import Law, is_held
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.comparison.run import Run, compared_again, have_passed
from keras_pe.export.results import CaseResult, CaseStatus, Comparison, RunStatus, RuntimeResult
from keras_pe.export.runtimes.runtime import as_dtype


def judged(result: RuntimeResult, run: Run, reference: Reference, law: Law) -> RuntimeResult:
    """Returns a result whose cases are judged by a law that accepts more than the strict one.

    What was found of the difference stays, whether it is accepted or not. Cases whose inputs the accepted precision
    does not hold are left out.

    Args:
        result: What the strict law fails, with its causes.
        run: What it was found from.
        reference: What it is measured against.
        law: What the user accepts.
    """
    if result.status is not RunStatus.COMPARED:
        return result
    usual = run.expectations[0].case
    told = [_left_out(case, each, usual, law) for case, each in zip(result.cases, run.expectations, strict=False)]
    open_cases = [number for number, case in enumerate(told) if _is_open(case)]
    compared = compared_again(reference, run.expectations, run.answers, told, open_cases, law)
    cases = tuple(_with_decisions(compared, law.allowance.allow_changed))
    passed = have_passed(cases)
    recording = None if passed else result.recording
    return replace(result, cases=cases, passed=passed, is_accepted=passed, recording=recording)


def _is_open(case: CaseResult) -> bool:
    """Whether it failed for what was compared alone."""
    return case.status is CaseStatus.FAILED and not case.error and bool(case.comparisons)


def _left_out(case: CaseResult, expectation: Expectation, usual: Case, law: Law) -> CaseResult:
    """Returns a case, skipped if the accepted precision does not hold values as large as those of its inputs."""
    precision, inputs = law.allowance.precision, expectation.case.inputs
    if precision is None or all(is_held(array, precision, usual.inputs[name]) for name, array in inputs.items()):
        return case
    return CaseResult(case.name, CaseStatus.SKIPPED, f"{precision} does not hold its values")


def _with_decisions(cases: Sequence[CaseResult], allowed: float) -> Iterator[CaseResult]:
    """Yields the cases with outputs passed of which no more decisions have changed than may, over all cases."""
    every = [comparison for case in cases for comparison in case.comparisons]
    decided = {name for name in {each.output for each in every} if _decides_alike(name, every, allowed)}
    for case in cases:
        comparisons = tuple(replace(each, passed=True) if each.output in decided else each for each in case.comparisons)
        passed = _is_open(case) and all(each.passed for each in comparisons)
        yield replace(case, comparisons=comparisons, status=CaseStatus.PASSED if passed else case.status)


def _decides_alike(output: str, every: Sequence[Comparison], allowed: float) -> bool:
    """Whether all of an output's comparisons are of decisions, of which no more have changed than may."""
    if not allowed:
        return False
    found = [_decisions(each) for each in every if each.output == output]
    counted = [each for each in found if each is not None]
    total = sum(count for count, _ in counted)
    return total > 0 and len(counted) == len(found) and sum(changed for _, changed in counted) <= allowed * total


def _decisions(comparison: Comparison) -> tuple[int, float] | None:
    """Returns how many decisions were compared and how many have changed; None where there are none."""
    if comparison.problem is not None:
        return None
    if comparison.argmax_agreement is not None:
        rows = prod(comparison.shape[:-1])
        return rows, rows * (1 - comparison.argmax_agreement)
    if np.dtype(as_dtype(comparison.dtype)).kind in "iub":
        return comparison.count, comparison.count * comparison.fraction_out_of_tolerance
    return None
