"""The coverage of a check: sizes and table rows that the cases exercise, weights and branches that they confirm."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo, dynamic_sizes
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.foldings import recorded_foldings
from keras_pe.export.parity.diagnosis.rounded_weights import rounded_weights
from keras_pe.export.parity.diagnosis.weights import stored_weights
from keras_pe.export.results import (
    Array,
    CaseStatus,
    Coverage,
    Finding,
    RunStatus,
    RuntimeResult,
    StoredWeights,
    TableCoverage,
    TakenBranches,
)
from keras_pe.export.runtimes.runner import Runner

_UNCOVERED = (
    "{compared} of {count} weights were found in the artifact (`require_coverage`). It may store the others folded, "
    "rounded or in another layout. Only the outputs confirm these."
)
_UNTAKEN = (
    "The cases take {taken} of the {count} branches of its conditions (`require_coverage`): {missed}. Add sizes "
    "(`sizes=`) or cases (`inputs=`) that take every branch."
)
_TOO_LITTLE = (
    "{share:.0%} of the values were compared, in {cases} of {total} cases. At least {least:.0%} are required "
    "(`least_compared`). For the others the model refuses the inputs, or returns NaN, an overflow or no values. "
    "Pass valid ranges (`ranges=`), sizes (`sizes=`) or your own cases (`inputs=`)."
)
_NOTHING = (
    "No value was compared. In every case the model refuses the inputs, or returns NaN, an overflow or no values. "
    "Pass valid ranges (`ranges=`), sizes (`sizes=`) or your own cases (`inputs=`)."
)
_UNKNOWN = "This runtime cannot read the weights of the artifact (`require_coverage`)."
_UNSEEN = "The compared outputs do not show the difference."
_UNROUNDED = (
    "Rounding to the stored format does not explain the difference, and the accepted differences do not cover it."
)


def input_coverage(
    inputs: Iterable[TensorInfo], roles: Mapping[str, Role], cases: Iterable[Mapping[str, Array]]
) -> Coverage:
    """Returns the sizes and table rows that the inputs of some cases exercise."""
    given, specs = list(cases), list(inputs)
    sizes: dict[str, set[int]] = {dim: set() for spec in specs for dim in spec.shape if isinstance(dim, str)}
    for case in given:
        for dim, size in dynamic_sizes(specs, case).items():
            sizes[dim].add(size)
    tables = (_table(spec.name, roles.get(spec.name), given) for spec in specs)
    return Coverage(
        {dim: tuple(sorted(found)) for dim, found in sizes.items()}, tuple(table for table in tables if table)
    )


def _table(name: str, role: Role | None, cases: Iterable[Mapping[str, Array]]) -> TableCoverage | None:
    """Returns how many rows of an input's table the cases read; None if the table is unknown."""
    if role is None or role.role != "ids" or role.low is None or role.high is None:
        return None
    read = np.unique(np.concatenate([np.empty(0, np.int64), *(case[name].ravel() for case in cases)]))
    fair = (read >= role.low) & (read < role.high)
    return TableCoverage(name, int(role.high - role.low), int(fair.sum()))


def with_coverage(
    result: RuntimeResult,
    runner: Runner,
    reference: Reference,
    expectations: Iterable[Expectation],
    before: Sequence[RuntimeResult] = (),
) -> RuntimeResult:
    """Returns the result of a runtime that passed, with its coverage of the artifact.

    A damaged weight fails the result. The findings of an accepted difference stay.

    Args:
        result: The result.
        runner: The runtime, still loaded.
        reference: The reference of the result. Without a Keras model there are no weights to compare.
        expectations: The expectations of the result.
        before: The results of other runtimes. Their coverage of the same artifact is reused.
    """
    same = (each for each in before if each.artifact == result.artifact)
    other = next((each for each in same if each.weights is not None or each.branches is not None), None)
    if other is not None:
        shared = replace(result, weights=other.weights, branches=other.branches)
        return shared if other.passed else replace(shared, passed=False, is_accepted=False, findings=other.findings)
    try:
        return _with_weights(replace(result, branches=_branches(runner, expectations)), runner, reference)
    except RuntimeFailedError:  # the runtime ran every case but cannot list what it stores
        return result


def with_damage(result: RuntimeResult, runner: Runner, reference: Reference) -> RuntimeResult:
    """Returns a failed result with the damaged weights before its other findings.

    Weights that differ by rounding alone are accepted and come last.
    """
    if result.passed or result.status is not RunStatus.COMPARED:
        return result
    try:
        found = _with_weights(replace(result, is_accepted=True), runner, reference)
    except RuntimeFailedError:
        return result
    damage = () if found.passed else found.findings
    known = {each.layer for each in damage}
    others = tuple(each for each in result.findings if each.layer not in known or not each.cause.is_rounding)
    return replace(result, findings=(*damage, *others) if damage else result.findings)


def _branches(runner: Runner, expectations: Iterable[Expectation]) -> TakenBranches | None:
    """Returns the branches that the compared cases have taken."""
    if "conditions" not in runner.capabilities:
        return None
    compared = (each.case.inputs for each in expectations if each.outputs is not None)
    seen = [runner.conditions(inputs) for inputs in compared]
    names = dict.fromkeys(name for each in seen for name in each)
    missed = {name: value for name in names for value in (True, False) if all(each[name] != value for each in seen)}
    return TakenBranches(2 * len(names), missed)


def compare_weights(
    runner: Runner, reference: Reference, *, may_be_rounded: bool
) -> tuple[StoredWeights | None, tuple[Finding, ...]]:
    """Returns how many of the model's weights an artifact stores, and a finding for each damaged weight.

    Args:
        runner: The runtime, with the artifact loaded.
        reference: The model. The first value is None without a Keras model, or if the runtime lists no constants.
        may_be_rounded: Whether a weight may differ by rounding to its storage format.

    Raises:
        RuntimeFailedError: If the runtime fails while the weights are read.
    """
    constants = runner.weights() if reference.model is not None else None
    if not constants:
        return None, ()
    foldings = recorded_foldings(reference.model, runner.metadata())
    if may_be_rounded:
        weights, faults = rounded_weights(reference.model, constants, runner.dequantize(), foldings)
    else:
        weights, faults = stored_weights(reference.model, constants, foldings, may_be_cut=not _takes_any_row(reference))
    message = _UNROUNDED if may_be_rounded else _UNSEEN
    return weights, tuple(replace(each.finding, evidence=f"{each.finding.evidence} {message}") for each in faults)


def _with_weights(result: RuntimeResult, runner: Runner, reference: Reference) -> RuntimeResult:
    weights, faults = compare_weights(runner, reference, may_be_rounded=result.is_accepted)
    if weights is None:
        return result
    is_accepted = result.is_accepted and not faults
    return replace(
        result, weights=weights, passed=not faults, is_accepted=is_accepted, findings=faults or result.findings
    )


def _takes_any_row(reference: Reference) -> bool:
    """Whether the inputs select the rows of a table, by a dynamic size or by integers."""
    is_free = any(isinstance(dim, str) for spec in reference.inputs for dim in spec.shape[1:])
    return is_free or any("int" in spec.dtype for spec in reference.inputs)


def with_enough_compared(result: RuntimeResult, least: float, examples: int = 0) -> RuntimeResult:
    """Returns a result that fails, with the reason, if the compared share is too small.

    Args:
        result: The result.
        least: The least share of the values of the cases, from 0 to 1.
        examples: The number of leading cases that are the user's examples. The share counts the examples only, since
            a user gives examples for a model that does not accept all values.
    """
    is_tried = result.status is RunStatus.COMPARED and not result.error
    if not is_tried or any(case.status is CaseStatus.FAILED for case in result.cases):
        return result
    counted = replace(result, cases=result.cases[: examples or None])
    total, share = len(result.cases), counted.compared_share
    if result.compared_cases and share >= least:
        return result
    message = _TOO_LITTLE.format(cases=result.compared_cases, total=total, share=share, least=least)
    if not result.compared_cases:
        message = _NOTHING
    return replace(result, passed=False, is_accepted=False, error=message)


def with_coverage_required(result: RuntimeResult) -> RuntimeResult:
    """Returns a result that fails if a weight of the model was not compared, or a branch was not taken.

    The result of a runtime that runs the model itself stays, since it has the model's own weights.
    """
    if not result.passed or result.format == "keras":
        return result
    weights, branches = result.weights, result.branches
    if weights is None:
        return replace(result, passed=False, error=_UNKNOWN)
    if weights.compared < weights.count:
        message = _UNCOVERED.format(compared=weights.compared, count=weights.count)
        return replace(result, passed=False, error=message)
    if branches is not None and branches.missed:
        missed = ", ".join(f"{name!r} was never {value}" for name, value in branches.missed.items())
        message = _UNTAKEN.format(taken=branches.taken, count=branches.count, missed=missed)
        return replace(result, passed=False, error=message)
    return result
