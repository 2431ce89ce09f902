"""Causes of the layers at fault: their weights, their attributes, or what has become of their outputs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.parity.diagnosis.changed_inputs import altered_inputs
from keras_pe.export.parity.diagnosis.probe import FAILURES, LayerFault, Probe
from keras_pe.export.parity.diagnosis.relations import describe_change
from keras_pe.export.parity.diagnosis.variants import explain_by_layer
from keras_pe.export.parity.diagnosis.weights import WeightComparison, WeightFault, compare_weights
from keras_pe.export.results import Finding, RunStatus

_MANY = 3  # weights with one cause are said in one sentence
_HALF = ("float16", "bfloat16")


def compared_weights(probe: Probe) -> WeightComparison:
    """Returns the weights of the artifact beside the model's, as far as they can be read."""
    if probe.reference.model is None or probe.result.status != RunStatus.COMPARED:
        return WeightComparison([], frozenset())
    folded = [(fault.call.layer, fault.folded.layer) for fault in probe.faults if fault.folded is not None]
    try:
        if constants := probe.runner.weights():
            return compare_weights(probe.reference.model, constants, folded)
    except FAILURES as error:
        probe.note("the weights in the artifact", error)
    return WeightComparison([], frozenset())


def weights_at_fault(probe: Probe, differing: Sequence[WeightFault]) -> list[Finding]:
    """Returns the weights that differ: those of the layers at fault, and others where their names leave no doubt."""
    at_fault = {fault.layer for fault in probe.faults}
    inside = [each for each in differing if any(_is_within(each.layer, layer) for layer in at_fault)]
    telling = inside or [each for each in differing if each.is_certain and (each.is_named or not probe.faults)]
    findings = []
    for fault in probe.faults:
        own = [each for each in telling if _is_within(each.layer, fault.layer)]
        # A constant that was only found by its content may be another's: what explains all the numbers comes first.
        instead = explain_by_layer(fault, probe.note) if own and not all(each.is_named for each in own) else None
        if instead is not None:
            telling = [each for each in telling if each not in own]
            findings.append(instead.finding)
    return findings + _as_findings(telling)


def layers_at_fault(probe: Probe, explained: set[str]) -> Iterator[Finding]:
    """Yields what explains each layer at fault, of those that no weight explains; each layer is said once."""
    done = set[str]()
    for fault in probe.faults:
        is_done = any(_is_within(layer, fault.layer) for layer in explained | done)
        finding = None if is_done else _explain(fault, probe)
        if finding is not None:
            done |= {fault.layer, finding.layer or fault.layer}
            yield finding


def _explain(fault: LayerFault, probe: Probe) -> Finding | None:
    """Returns what explains a layer's output: what is exact comes before what is nearly so.

    It is the layer by itself, or one before it that is known by chance alone, then what the values say by themselves,
    then what the layer is given.
    """
    before = (replace(each, through=fault, sound_weights=fault.sound_weights) for each in fault.unsure)
    nearly: Finding | None = None
    for each in (fault, *before):
        found = explain_by_layer(each, probe.note)
        if found is not None and found.is_exact:
            return found.finding
        if found is not None:
            nearly = nearly or found.finding
    told = _change_of_output(probe, fault)
    if told is not None:
        return told
    found = explain_by_layer(fault, probe.note, altered_inputs)
    if found is not None and (found.is_exact or nearly is None):
        return found.finding
    return nearly


def _change_of_output(probe: Probe, fault: LayerFault) -> Finding | None:
    """Returns what the values of a layer's output say by themselves."""
    if fault.actual is None:
        return None
    ended = _clamped(fault)
    if ended is not None:
        return ended
    if not _computes_in_half(probe) and (halves := [d for d in probe.runner.float_dtypes() if d in _HALF]):
        error = np.abs(fault.actual.astype(np.float64) - fault.expected.astype(np.float64)).max()
        largest = np.abs(fault.expected.astype(np.float64)).max()
        if error <= 2.0**-6 * largest:
            text = (
                f"The artifact has tensors of {' and '.join(halves)}, and is off by {error:.1e} of {largest:.2g} here."
            )
            return Finding("half precision inside", text, fault.layer)
    found = describe_change(fault.expected, fault.actual)
    if found is None or found[0] == "changed values":
        return None
    cause = {"shifted rows": "start index off" if _is_position(fault) else "shifted rows"}.get(found[0], found[0])
    return Finding(cause, f"Its output is another. {found[1]}", fault.layer)


def _clamped(fault: LayerFault) -> Finding | None:
    """An output that is right up to a position and wrong at every one after it."""
    expected, actual = fault.expected.astype(np.float64), (fault.actual if fault.actual is not None else 0) + 0.0
    if expected.ndim < 2 or expected.shape[1] < 4:
        return None
    axes = tuple(i for i in range(expected.ndim) if i != 1)
    wrong = np.abs(expected - actual).max(axis=axes) > fault.tolerance
    first = int(wrong.argmax())
    if first < 2 or not wrong[first:].all() or wrong[:first].any():
        return None
    text = f"It agrees up to position {first - 1}, and not from {first} to {len(wrong) - 1}."
    return Finding("clamped table", text, fault.layer)


def _is_position(fault: LayerFault) -> bool:
    from keras_pe.layers.base import PositionLayer

    return isinstance(fault.call.layer, PositionLayer)


def _computes_in_half(probe: Probe) -> bool:
    model = probe.reference.model
    return any(getattr(layer, "compute_dtype", None) in _HALF for layer in all_layers(model))


def _is_within(path: str, layer: str) -> bool:
    return path == layer or path.startswith(f"{layer}/")


def _as_findings(faults: list[WeightFault]) -> list[Finding]:
    """Returns a finding for each weight, or one for many that have the same cause."""
    findings = []
    counts = Counter(fault.cause for fault in faults)
    for cause, count in counts.items():
        same = [fault for fault in faults if fault.cause == cause]
        if count > _MANY and (cause == "rounded values" or cause.startswith("quantized")):
            text = f"{count} weights are {cause.split()[0]}, the first is {same[0].weight!r}. {same[0].evidence}"
            findings.append(Finding(cause, text, None))
        else:
            findings += [Finding(cause, f"Weight {f.weight!r}: {f.evidence}", f.layer) for f in same]
    return findings
