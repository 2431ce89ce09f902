"""The verdict of a user who accepts more than the strict law, from what that has failed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.law import Law, is_held
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.comparison.run import Run, compared_again, have_passed
from keras_pe.export.results import CaseResult, CaseStatus, Comparison, Problem, RunStatus, RuntimeResult
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
    """Yields the cases with each output that decides judged by its decisions, counted over all cases.

    An output passes, whatever its values are, if no more decisions changed than the user accepts. It fails, however
    small the differences are, if more changed than the user accepts and rounding does not explain them.
    """
    every = [comparison for case in cases for comparison in case.comparisons]
    changed = {each.output: _changed_share([one for one in every if one.output == each.output]) for each in every}
    for case in cases:
        comparisons = tuple(_by_decisions(each, changed[each.output], allowed) for each in case.comparisons)
        passed = _is_open(case) and all(each.passed for each in comparisons)
        is_failed = not all(each.passed for each in comparisons)
        status = CaseStatus.PASSED if passed else CaseStatus.FAILED if is_failed else case.status
        yield replace(case, comparisons=comparisons, status=status)


def _by_decisions(comparison: Comparison, changed: tuple[float, float] | None, allowed: float) -> Comparison:
    """Returns a comparison with the verdict that follows from the decisions of its output.

    Args:
        comparison: The comparison.
        changed: As `_changed_share` returns it.
        allowed: The share that the user accepts.
    """
    if changed is None:
        return comparison
    share, unexplained = changed
    if allowed and share <= allowed and _decides_alone(comparison):
        return replace(comparison, passed=True)
    if unexplained > allowed and comparison.changed_decisions > comparison.tied_decisions:
        return replace(comparison, passed=False, problem=Problem.DECISIONS)
    return comparison


def _decides_alone(comparison: Comparison) -> bool:
    """Whether the decisions are all that an output says: not if the best of several independent scores decides."""
    is_exact = np.dtype(as_dtype(comparison.dtype)).kind in "iub"
    return is_exact or comparison.argmax_agreement is not None or comparison.shape[-1:] == (1,)


def _changed_share(compared: Sequence[Comparison]) -> tuple[float, float] | None:
    """Returns the share of an output's decisions that changed, and the share without ties.

    None if an array of the output could not be compared or does not decide.
    """
    total = sum(each.decisions for each in compared)
    if not total or any(each.problem is not None or (each.count and not each.decisions) for each in compared):
        return None
    changed, ties = (sum(getattr(each, name) for each in compared) for name in ("changed_decisions", "tied_decisions"))
    return changed / total, (changed - ties) / total
