"""What of an artifact was covered where its outputs agree: the weights that it stores, and its branches."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.weights import stored_weights
from keras_pe.export.results import RuntimeResult, TakenBranches
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
        covered = replace(result, weights=other.weights, branches=other.branches)
        return replace(covered, passed=other.passed, findings=other.findings)
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
    weights, faults = stored_weights(reference.model, constants)
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
