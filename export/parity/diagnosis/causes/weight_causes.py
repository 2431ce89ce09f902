"""Finds the causes in weights: those that the artifact stores with other values than the model."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.parity.diagnosis.causes.layer_causes import is_in_any, is_moved_factor
from keras_pe.export.parity.diagnosis.causes.user_code import operations_at_fault
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.edit_search import explain
from keras_pe.export.parity.diagnosis.foldings import possible_foldings, recorded_foldings
from keras_pe.export.parity.diagnosis.hidden_tensors import OutsideView
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, with_weights
from keras_pe.export.parity.diagnosis.recorded_cases import calls_of, rank, telling_case
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.parity.diagnosis.rounded_weights import integer_weights
from keras_pe.export.parity.diagnosis.weight_pairs import WeightFault
from keras_pe.export.parity.diagnosis.weights import WeightComparison, compare_weights
from keras_pe.export.results import Array, Cause, Finding, RunStatus

_MANY = 3  # more weights with one cause share one sentence
_OF_CONVERTERS = {Cause.SCALED_VALUES, Cause.OFFSET_VALUES, Cause.FLIPPED_SIGN}
_NEARER = 0.5  # largest share of the difference that may remain; a smaller reduction may be chance
_FOLDED = 0.02  # the same for a change that a converter makes itself, such as a factor of the code after the layer


def compared_weights(probe: Probe) -> Iterator[WeightComparison]:
    """Yields the comparison of the artifact's weights with the model's, if the runtime lists weights."""
    reference = probe.reference
    if not isinstance(reference, KerasReference) or probe.run.result.status != RunStatus.COMPARED:
        return
    try:
        constants = probe.runner.weights()
    except RuntimeFailedError as error:
        probe.note("the weights in the artifact", error)
        return
    if constants:
        smallest = min((each for each in probe.run.expectations if each.outputs), key=rank)
        normalizations = any(hasattr(each, "moving_variance") for each in all_layers(reference.model))
        calls = calls_of(probe, reference.model, smallest.case.inputs) if normalizations else ()
        foldable = possible_foldings(calls)
        foldings = recorded_foldings(reference.model, probe.runner.metadata())
        found = compare_weights(reference.model, constants, foldable, foldings)
        known = found.sound.union(each.weight for each in found.faults)
        packed = integer_weights(reference.model, probe.runner.dequantize(), foldings)
        yield replace(found, faults=[*found.faults, *(each for each in packed if each.weight not in known)])


def weights_at_fault(probe: Probe, differing: Sequence[WeightFault]) -> Iterator[Finding]:
    """Yields the differing weights of the layers at fault, and other differing weights that are certain by name."""
    at_fault = {layer for fault in probe.faults for layer in fault.layers}
    inside = [each for each in differing if is_in_any(each.layer, at_fault)]
    telling = inside or [each for each in differing if each.is_certain and (each.is_named or not probe.faults)]
    telling = telling if probe.faults else _proven(probe, telling)
    for fault in probe.faults:
        own = [each for each in telling if is_in_any(each.layer, fault.layers)]
        if any(each.is_captured for each in own) and (code := operations_at_fault(probe, fault)).is_exact:
            telling = [each for each in telling if each not in own]
            yield from code.findings
            continue
        if not _is_shown(fault, own):
            telling = [each for each in telling if each not in own or each.stored is None]
            own = [each for each in own if each.stored is None]
        unsure = [each for each in own if _is_unsure(each, fault)]
        instead = explain(probe, fault.folded or fault) if unsure else None
        if instead is not None:
            telling = [each for each in telling if each not in own]
            if not is_moved_factor(instead.finding, fault, probe):
                yield instead.finding
    yield from _weight_findings(telling)


def _is_unsure(weight: WeightFault, fault: LayerFault) -> bool:
    """Whether an edit that explains all values takes precedence over a finding about a weight.

    A constant that was matched by content may belong to another weight. A folded normalization combines its weights
    into one factor, which does not distinguish them.
    """
    if fault.folded is not None:
        return weight.layer == fault.folded.layer
    return not weight.is_named or (weight.is_folded and hasattr(fault.call.layer, "moving_variance"))


def _is_shown(fault: LayerFault, weights: Sequence[WeightFault]) -> bool:
    """Whether a layer with the stored weights comes nearer to the artifact; True if no such weight is uncertain.

    A converter may have multiplied a weight that was matched by likeness by a constant of the code beside it, or added
    one. Smaller values alone come nearer by chance, so that such a weight must explain the output.
    """
    shown = fault.through or fault
    variables = {each.path: each for each in getattr(shown.call.layer, "weights", ())}  # an operation has none
    stored = {each.weight: each.stored for each in weights if each.stored is not None}
    if fault.through is not None:
        stored = {path: array for path, array in stored.items() if path in variables}
    if not stored or shown.actual is None:
        return True
    is_folded = all(each.change.cause in _OF_CONVERTERS for each in weights if each.stored is not None)
    return _are_nearer(shown, stored, variables.items(), _FOLDED if is_folded else _NEARER)


def _are_nearer(
    fault: LayerFault, stored: Mapping[str, Array], variables: Iterable[tuple[str, Any]], share: float = _NEARER
) -> bool:
    """Whether stored weights, by path, leave at most a share of the difference of a layer from the artifact."""
    assert fault.actual is not None
    given = with_weights(fault, [(variable, stored[path]) for path, variable in variables if path in stored])
    return distance(given, fault.actual) <= share * distance(fault.expected, fault.actual)


def _proven(probe: Probe, differing: list[WeightFault]) -> list[WeightFault]:
    """Returns the weights without those that were matched by likeness, unless these explain the outputs.

    If the runtime shows no inner tensors, a converter may have multiplied such a weight by an adjacent factor.
    """
    stored = {each.weight: each.stored for each in differing if each.stored is not None}
    if not stored or not isinstance(probe.reference, KerasReference) or _comes_nearer(probe, probe.reference, stored):
        return differing
    return [each for each in differing if each.stored is None]


def _comes_nearer(probe: Probe, reference: KerasReference, stored: Mapping[str, Array]) -> bool:
    """Whether the model with the stored weights, by path, at least halves the difference from the artifact.

    Returns True if no case can show it.
    """
    number = telling_case(probe)
    if number is None:
        return True
    fault = next(OutsideView(probe, reference, number).faults())
    paths = [variable.path for variable in reference.model.weights]
    return _are_nearer(fault, stored, zip(paths, fault.call.layer.model.weights, strict=True))


def _weight_findings(faults: list[WeightFault]) -> Iterator[Finding]:
    """Yields a finding for each weight, or one for many weights that are rounded alike."""
    for cause, count in Counter(fault.change.cause for fault in faults).items():
        same = [fault for fault in faults if fault.change.cause == cause]
        if count > _MANY and cause.is_rounding:
            kind = "rounded" if cause is Cause.ROUNDED_VALUES else "quantized"
            first = f"the first is {same[0].weight!r}. {same[0].change}"
            yield Finding(cause, f"{count} weights are {kind}, {first}", None)
        else:
            yield from (fault.finding for fault in same)
