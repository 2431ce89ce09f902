"""The verdict under a user's allowance, from a result that failed under the strict tolerance policy."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.comparison.run_cases import Run, compared_again, have_passed
from keras_pe.export.comparison.tolerance import TolerancePolicy, is_held
from keras_pe.export.results import CaseResult, CaseStatus, Comparison, Problem, RunStatus, RuntimeResult
from keras_pe.export.runtimes.runtime import as_dtype


def accept_result(result: RuntimeResult, run: Run, reference: Reference, policy: TolerancePolicy) -> RuntimeResult:
    """Returns a result with verdicts by a tolerance policy that accepts more than the strict one.

    The findings stay, whether the difference is accepted or not. A case is skipped if the accepted precision cannot
    represent its inputs.

    Args:
        result: A result that failed under the strict policy, with its causes.
        run: The run of the result.
        reference: The reference of the differences.
        policy: The tolerance policy with the user's allowance.
    """
    if result.status is not RunStatus.COMPARED:
        return result
    usual = run.expectations[0].case
    checked = [_left_out(case, each, usual, policy) for case, each in zip(result.cases, run.expectations, strict=False)]
    open_cases = [number for number, case in enumerate(checked) if _is_open(case)]
    compared = compared_again(reference, run.expectations, run.answers, checked, open_cases, policy)
    cases = tuple(_with_decisions(compared, policy.allowance.allow_changed))
    passed = have_passed(cases)
    recording = None if passed else result.recording
    return replace(result, cases=cases, passed=passed, is_accepted=passed, recording=recording)


def _is_open(case: CaseResult) -> bool:
    """Whether a case failed by its comparisons alone."""
    return case.status is CaseStatus.FAILED and not case.error and bool(case.comparisons)


def _left_out(case: CaseResult, expectation: Expectation, usual: Case, policy: TolerancePolicy) -> CaseResult:
    """Returns a case, skipped if the accepted precision cannot represent values as large as its inputs."""
    precision, inputs = policy.allowance.precision, expectation.case.inputs
    if precision is None or all(is_held(array, precision, usual.inputs[name]) for name, array in inputs.items()):
        return case
    return CaseResult(case.name, CaseStatus.SKIPPED, f"{precision} does not hold its values")


def _with_decisions(cases: Sequence[CaseResult], allowed: float) -> Iterator[CaseResult]:
    """Yields the cases with verdicts by decisions for each output that decides, counted over all cases.

    An output passes, whatever its values, if the user accepts the share of changed decisions. An output fails, however
    small the differences, if more decisions changed than the user accepts and rounding does not explain the changes.
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
    """Returns a comparison with the verdict by the decisions of its output.

    Args:
        comparison: The comparison.
        changed: The result of `_changed_share`.
        allowed: The share of changed decisions that the user accepts.
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
    """Whether only the decisions of an output matter: not for the best of several independent scores."""
    is_exact = np.dtype(as_dtype(comparison.dtype)).kind in "iub"
    return is_exact or comparison.argmax_agreement is not None or comparison.shape[-1:] == (1,)


def _changed_share(compared: Sequence[Comparison]) -> tuple[float, float] | None:
    """Returns the share of an output's decisions that changed, and the share without ties.

    Returns None if an array of the output could not be compared or does not decide.
    """
    total = sum(each.decisions for each in compared)
    if not total or any(each.problem is not None or (each.count and not each.decisions) for each in compared):
        return None
    changed, ties = (sum(getattr(each, name) for each in compared) for name in ("changed_decisions", "tied_decisions"))
    return changed / total, (changed - ties) / total
