"""Why: each detector looks for one cause, and says what speaks for it."""

from collections.abc import Callable, Iterable

from keras_pe.export.parity.diagnosis.causes.behaviour import (
    batch_dependence,
    clamped_length,
    frozen_length,
    frozen_state,
    non_determinism,
    process_end,
)
from keras_pe.export.parity.diagnosis.causes.counterfactual import dropped_mask, encoding_variant, weight_variant
from keras_pe.export.parity.diagnosis.causes.structure import missing_and_extra, other_dtype
from keras_pe.export.parity.diagnosis.causes.values import (
    half_precision,
    layout_of_columns,
    not_a_number,
    passed_through,
    shifted_rows,
    swapped_outputs,
    transposed_axes,
)
from keras_pe.export.parity.diagnosis.probe import Evidence
from keras_pe.export.parity.results import Finding

Detector = Callable[[Evidence], Iterable[Finding]]

# The first stage that finds something is the last: what shakes by itself also seems to depend on its batch. What is
# seen from outside explains no numbers, so the stages follow it all the same.
_OUTSIDE: tuple[Detector, ...] = (process_end, missing_and_extra, other_dtype)
_STAGES: tuple[tuple[Detector, ...], ...] = (
    (non_determinism,),
    (not_a_number, swapped_outputs, passed_through, transposed_axes, layout_of_columns, shifted_rows),
    (frozen_state, frozen_length, batch_dependence),
    (encoding_variant,),
    (dropped_mask,),
    (half_precision,),
    (weight_variant,),
    (clamped_length,),
)


def find_causes(evidence: Evidence) -> tuple[Finding, ...]:
    """Returns what the detectors found, or that the cause is not known, with the layer if that is."""
    findings = [finding for detector in _OUTSIDE for finding in detector(evidence)]
    for stage in _STAGES:
        found = [finding for detector in stage for finding in detector(evidence)]
        if found:
            return tuple(dict.fromkeys(findings + found))
    if findings:
        return tuple(findings)
    layer = evidence.born_in()
    where = "" if layer is None else f" The outputs of the layers before {layer!r} agree."
    return (Finding("unknown", f"None of the known causes explains the difference.{where}", layer),)
