"""The weights that an artifact stores, held against the model's where its outputs agree: not every row is reached."""

from collections.abc import Sequence
from dataclasses import replace

from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.weights import stored_weights
from keras_pe.export.results import RuntimeResult
from keras_pe.export.runtimes.runner import Runner

_UNCOVERED = (
    "{compared} of {count} weights were found in what the artifact stores (`require_coverage`): the others were "
    "folded, rounded or laid out in another way, and only the outputs speak for them."
)
_UNKNOWN = "what the artifact stores cannot be read in this runtime (`require_coverage`)."
_UNSEEN = "The outputs that were compared do not show it."


def with_weights(
    result: RuntimeResult, runner: Runner, reference: Reference, before: Sequence[RuntimeResult] = ()
) -> RuntimeResult:
    """Returns the result of a runtime that passed, with how much of the weights was compared; a damaged one fails it.

    What was found of a difference that is accepted stays.

    Args:
        result: The result.
        runner: The runtime, still loaded.
        reference: What it is measured against; without a Keras model there are no weights to compare.
        before: The results of other runtimes: the weights of an artifact are compared once.
    """
    other = next((each for each in before if each.artifact == result.artifact and each.weights is not None), None)
    if other is not None:
        return replace(result, weights=other.weights, passed=other.passed, findings=other.findings)
    if reference.model is None:
        return result
    try:
        constants = runner.weights()
        if not constants:
            return result
        weights, faults = stored_weights(reference.model, constants)
    except RuntimeFailedError:  # it ran every case, and does not show what it holds
        return result
    findings = tuple(replace(each.finding, evidence=f"{each.finding.evidence} {_UNSEEN}") for each in faults)
    return replace(result, weights=weights, passed=not faults, findings=findings or result.findings)


def with_coverage_required(result: RuntimeResult) -> RuntimeResult:
    """Returns a result that has failed where a weight of the model was not compared with what the artifact stores.

    A runtime that runs the model itself has the model's own weights.
    """
    weights = result.weights
    if not result.passed or result.format == "keras" or (weights is not None and weights.compared == weights.count):
        return result
    said = _UNKNOWN if weights is None else _UNCOVERED.format(compared=weights.compared, count=weights.count)
    return replace(result, passed=False, error=said)
