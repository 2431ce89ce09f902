"""Causes of the layers at fault: their weights, their attributes, or what has become of their outputs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.recording import LayerCall, is_within, record_calls, state_left_alone
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.other_cases import rank
from keras_pe.export.parity.diagnosis.outside import comes_nearer
from keras_pe.export.parity.diagnosis.probe import FAILURES, Probe
from keras_pe.export.parity.diagnosis.search import explain
from keras_pe.export.parity.diagnosis.sites.operations import other_operations
from keras_pe.export.parity.diagnosis.sites.other_values import rounded_inside
from keras_pe.export.parity.diagnosis.sites.table import Seen, sites_seen
from keras_pe.export.parity.diagnosis.weights import (
    WeightComparison,
    WeightFault,
    compare_weights,
    foldable_pairs,
    told_pairs,
)
from keras_pe.export.results import HALF, Cause, Finding, RunStatus

_MANY = 3  # weights with one cause are said in one sentence


def compared_weights(probe: Probe) -> Iterator[WeightComparison]:
    """Yields the weights of the artifact beside the model's, as far as they can be read."""
    if probe.reference.model is None or probe.result.status != RunStatus.COMPARED:
        return
    try:
        constants = probe.runner.weights()
    except FAILURES as error:
        probe.note("the weights in the artifact", error)
        return
    if constants:
        model = probe.reference.model
        told = told_pairs(model, probe.runner.metadata())
        yield compare_weights(model, constants, foldable_pairs(_calls(probe)), told)


def _calls(probe: Probe) -> list[LayerCall]:
    """Returns the calls of the model's layers in the smallest case that it answers."""
    from keras_pe.export.comparison.references.keras import KerasReference

    reference = probe.reference
    assert isinstance(reference, KerasReference)
    smallest = min((each for each in probe.expectations if each.outputs), key=rank)
    with state_left_alone():
        return record_calls(reference.model, lambda: reference.predict(reference.model, smallest.case.inputs))


def weights_at_fault(probe: Probe, differing: Sequence[WeightFault]) -> Iterator[Finding]:
    """Yields the weights that differ: those of the layers at fault, and others where their names leave no doubt."""
    at_fault = {layer for fault in probe.faults for layer in fault.layers}
    inside = [each for each in differing if _is_in_any(each.layer, at_fault)]
    telling = inside or [each for each in differing if each.is_certain and (each.is_named or not probe.faults)]
    telling = telling if probe.faults else _proven(probe, telling)
    for fault in probe.faults:
        own = [each for each in telling if _is_in_any(each.layer, fault.layers)]
        # A constant that was only found by its content may be another's: what explains all the numbers comes first. So
        # does what tells the weights of a normalization apart: folded, they are one factor.
        folded = fault.folded if any(fault.folded and each.layer == fault.folded.layer for each in own) else None
        is_unsure = folded is not None or not all(each.is_named for each in own)
        instead = explain(probe, folded or fault) if own and is_unsure else None
        if instead is not None:
            telling = [each for each in telling if each not in own]
            yield instead.finding
    yield from _as_findings(telling)


def _proven(probe: Probe, differing: list[WeightFault]) -> list[WeightFault]:
    """Returns the weights without those that are known by their content alone, unless these explain the outputs.

    Where nothing is seen inside, a converter may have multiplied one by what stands before or after its layer.
    """
    from keras_pe.export.comparison.references.keras import KerasReference

    stored = {each.weight: each.stored for each in differing if each.stored is not None}
    if not stored or not isinstance(probe.reference, KerasReference) or comes_nearer(probe, probe.reference, stored):
        return differing
    return [each for each in differing if each.stored is None]


def layers_at_fault(probe: Probe, explained: set[str]) -> Iterator[Finding]:
    """Yields what explains each layer at fault, of those that no weight explains; each layer is said once."""
    done = set[str]()
    for fault in probe.faults:
        is_done = any(_is_in_any(layer, fault.layers) for layer in explained | done)
        finding = None if is_done else _explain(fault, probe)
        if finding is not None:
            done |= {fault.layer, finding.layer or fault.layer}
            calls = probe.calls_at_fault(fault) if finding.layer == fault.layer else ""
            yield replace(finding, evidence=finding.evidence + calls)


def _explain(fault: LayerFault, probe: Probe) -> Finding | None:
    """Returns what explains a layer's output: what is exact comes before what is nearly so.

    It is the layer by itself, or one before it that is known by chance alone, then what the values say by themselves,
    then what the layer is given.
    """
    before = [replace(each, through=fault, sound_weights=fault.sound_weights) for each in fault.unsure]
    halves = [] if _computes_in_half(probe) else [name for name in probe.runner.float_dtypes() if name in HALF]
    of_layer, of_inputs = sites_seen(Seen.LAYER), sites_seen(Seen.INPUTS)
    of_values = (*([rounded_inside(halves)] if halves else ()), *sites_seen(Seen.VALUES))
    seen, whole = fault, fault
    if fault.folded is not None:
        whole = fault.folded
        seen, before = replace(fault, folded=None, through=whole), [whole, *before]
    tries = [*((each, of_layer) for each in (seen, *before)), (whole, of_values), (seen, of_inputs)]
    if fault.through is not None:  # what joins a branch that was left out is more telling than what the branch became
        tries.insert(0, (fault.through, (other_operations,)))
    nearly: Finding | None = None
    for each, sites in tries:
        found = explain(probe, each, sites)
        if found is None:
            continue
        absent = (*fault.absent, *([fault.layer] if each is fault.through else []))
        finding = replace(found.finding, absent=absent)
        if found.is_exact:
            return finding
        nearly = nearly or finding
    return nearly


def _computes_in_half(probe: Probe) -> bool:
    model = probe.reference.model
    return any(getattr(layer, "compute_dtype", None) in HALF for layer in all_layers(model))


def _is_in_any(path: str, layers: Iterable[str]) -> bool:
    return any(is_within(path, layer) for layer in layers)


def _as_findings(faults: list[WeightFault]) -> Iterator[Finding]:
    """Yields a finding for each weight, or one for many that are rounded in the same way."""
    for cause, count in Counter(fault.change.cause for fault in faults).items():
        same = [fault for fault in faults if fault.change.cause == cause]
        if count > _MANY and cause.is_rounding:
            kind = "rounded" if cause is Cause.ROUNDED_VALUES else "quantized"
            first = f"the first is {same[0].weight!r}. {same[0].change}"
            yield Finding(cause, f"{count} weights are {kind}, {first}", None)
        else:
            yield from (fault.finding for fault in same)
