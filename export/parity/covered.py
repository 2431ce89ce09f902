"""What a check has covered: sizes and rows of tables by its cases, weights and branches of an artifact that agrees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.input_roles import Role
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.weights import stored_weights, told_foldings
from keras_pe.export.results import Array, Coverage, RuntimeResult, TableCoverage, TakenBranches
from keras_pe.export.runtimes.runner import Runner

_UNCOVERED = (
    "{compared} of {count} weights were found in what the artifact stores (`require_coverage`): the others were "
    "folded, rounded or laid out in another way, and only the outputs speak for them."
)
_UNTAKEN = (
    "{taken} of {count} branches of its conditions were taken (`require_coverage`): {missed}. Give `sizes=` or "
    "`inputs=` with which each is taken."
)
_UNKNOWN = "what the artifact stores cannot be read in this runtime (`require_coverage`)."
_UNSEEN = "The outputs that were compared do not show it."


def covered(inputs: Iterable[TensorInfo], roles: Mapping[str, Role], cases: Iterable[Mapping[str, Array]]) -> Coverage:
    """Returns what the inputs of some cases exercise of what a model takes."""
    given, specs = list(cases), list(inputs)
    sizes: dict[str, set[int]] = {dim: set() for spec in specs for dim in spec.shape if isinstance(dim, str)}
    for case in given:
        for spec in specs:
            for dim, size in zip(spec.shape, case[spec.name].shape, strict=True):
                if isinstance(dim, str):
                    sizes[dim].add(size)
    tables = (_table(spec.name, roles.get(spec.name), given) for spec in specs)
    return Coverage(
        {dim: tuple(sorted(found)) for dim, found in sizes.items()}, tuple(table for table in tables if table)
    )


def _table(name: str, role: Role | None, cases: Iterable[Mapping[str, Array]]) -> TableCoverage | None:
    """Returns how much of the table is read that an input looks into; None where that is not known."""
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
    """Returns the result of a runtime that passed, with how much of the artifact it has covered.

    A damaged weight fails it. What was found of a difference that is accepted stays.

    Args:
        result: The result.
        runner: The runtime, still loaded.
        reference: What it is measured against; without a Keras model there are no weights to compare.
        expectations: What it was compared with.
        before: The results of other runtimes: an artifact is looked into once.
    """
    same = (each for each in before if each.artifact == result.artifact)
    other = next((each for each in same if each.weights is not None or each.branches is not None), None)
    if other is not None:
        told = replace(result, weights=other.weights, branches=other.branches)
        return told if other.passed else replace(told, passed=False, findings=other.findings)
    try:
        return _with_weights(replace(result, branches=_branches(runner, expectations)), runner, reference)
    except RuntimeFailedError:  # it ran every case, and does not show what it holds
        return result


def _branches(runner: Runner, expectations: Iterable[Expectation]) -> TakenBranches | None:
    """Returns which branches the cases that were compared have taken."""
    if "conditions" not in runner.capabilities:
        return None
    compared = (each.case.inputs for each in expectations if each.outputs is not None)
    seen = [runner.conditions(inputs) for inputs in compared]
    names = dict.fromkeys(name for each in seen for name in each)
    missed = {name: value for name in names for value in (True, False) if all(each[name] != value for each in seen)}
    return TakenBranches(2 * len(names), missed)


def _with_weights(result: RuntimeResult, runner: Runner, reference: Reference) -> RuntimeResult:
    constants = runner.weights() if reference.model is not None else None
    if not constants:
        return result
    told = told_foldings(reference.model, runner.metadata())
    weights, faults = stored_weights(reference.model, constants, told)
    findings = tuple(replace(each.finding, evidence=f"{each.finding.evidence} {_UNSEEN}") for each in faults)
    return replace(result, weights=weights, passed=not faults, findings=findings or result.findings)


def with_coverage_required(result: RuntimeResult) -> RuntimeResult:
    """Returns a result that has failed where a weight of the model was not compared, or a branch was not taken.

    A runtime that runs the model itself has the model's own weights.
    """
    if not result.passed or result.format == "keras":
        return result
    weights, branches = result.weights, result.branches
    if weights is None:
        return replace(result, passed=False, error=_UNKNOWN)
    if weights.compared < weights.count:
        said = _UNCOVERED.format(compared=weights.compared, count=weights.count)
        return replace(result, passed=False, error=said)
    if branches is not None and branches.missed:
        missed = ", ".join(f"{name!r} was never {value}" for name, value in branches.missed.items())
        said = _UNTAKEN.format(taken=branches.taken, count=branches.count, missed=missed)
        return replace(result, passed=False, error=said)
    return result
