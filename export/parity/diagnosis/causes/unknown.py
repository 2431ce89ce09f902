"""Reports the layers at fault whose cause is unknown, with the wrong values and the attempts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from keras_pe.export.model.watch.layer_paths import is_within
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.parity.diagnosis.relations.detection import few_rows, few_values, find_change
from keras_pe.export.results import Cause, Finding

_STEPS_OFF = 8  # largest error of a sum of rounded factors, in steps of 1/256 of the output's range
_ROUNDED = "Its output is off by at most a few steps of 8 bits, since the artifact stores its inputs in integers."
_SAID = 3  # number of reported refusals; the later ones usually follow from the first
_TRIED = (
    "the weights one by one, the attributes of the layer, its masks, rounding, axes, rows and signs, state, frozen "
    "sizes and the batch"
)


def unknown_findings(
    probe: Probe, explained: set[str], located: Sequence[Finding], *, has_findings: bool, is_quantized: bool
) -> list[Finding]:
    """Returns a finding for each unexplained layer at fault, or one finding if there is nothing else.

    Args:
        probe: The runtime.
        explained: The layers with a cause.
        located: The operations at fault inside layers, with unknown cause.
        has_findings: Whether any cause is known.
        is_quantized: Whether a cause is that weights or outputs are stored in integers.
    """
    explained = explained | {layer for each in located for layer in each.absent}
    left = {fault.layer: fault for fault in probe.faults if not is_explained(fault, explained)}
    rounded = [layer for layer, fault in left.items() if is_quantized and _is_rounded(fault)]
    found = [Finding(Cause.QUANTIZED_INT8, _ROUNDED, layer, absent=left.pop(layer).absent) for layer in rounded]
    if left:
        tried = f"Tried: {_TRIED}.{_notes(probe)}"
        for layer, fault in left.items():
            description = "The layers before it agree, but its output does not."
            plain = Finding(Cause.UNKNOWN, description, layer, absent=fault.absent)
            for each in [each for each in located if each.layer == layer] or [plain]:
                evidence = f"{each.evidence}{probe.calls_at_fault(fault)}{_describe_values(fault)} {tried}"
                found.append(replace(each, evidence=evidence))
        return found
    if has_findings:
        return found
    return [Finding(Cause.UNKNOWN, f"No tried change explains the difference. Tried: {_TRIED}.{_notes(probe)}")]


def _is_rounded(fault: LayerFault) -> bool:
    """Whether an output is off by at most a few steps of 8 bits, like sums of rounded values."""
    if fault.actual is None or fault.actual.shape != fault.expected.shape or not fault.expected.size:
        return False
    return distance(fault.actual, fault.expected) <= _STEPS_OFF * float(np.ptp(fault.expected)) / 2**8


def _describe_values(fault: LayerFault) -> str:
    """Returns a sentence on which values of an output differ; empty if the artifact shows no values."""
    if fault.actual is None:
        return ""
    change = find_change(fault.expected, fault.actual, fault.tolerance, (few_rows, few_values))
    return "" if change is None else f" {change}"


def _notes(probe: Probe) -> str:
    """Returns sentences on refused attempts and on attempts without time."""
    refused = f" Failed attempts: {'; '.join(probe.refusals[:_SAID])}." if probe.refusals else ""
    if not probe.not_reached:
        return refused
    rest = "; ".join(dict.fromkeys(probe.not_reached))
    return f"{refused} Not reached within {probe.budget.seconds:g} s (`diagnosis_seconds`): {rest}."


def is_explained(fault: LayerFault, explained: set[str]) -> bool:
    """Whether a layer, a layer within it, or an uncertain layer before it has a cause."""
    layers = (*fault.layers, *fault.absent)
    if any(is_within(each, layer) for each in explained for layer in layers):
        return True
    return any(is_explained(each, explained) for each in fault.unsure)
