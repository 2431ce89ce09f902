"""Causes that a changed model proves: with one of its layers made wrong on purpose, it gives the artifact's numbers."""

from collections.abc import Iterator
from dataclasses import replace

from keras_pe.export.parity.diagnosis.outside import OutsideView, telling_case
from keras_pe.export.parity.diagnosis.probe import Probe
from keras_pe.export.parity.diagnosis.search import explain
from keras_pe.export.parity.diagnosis.sites.attention_scores import other_masks, other_softmax
from keras_pe.export.parity.diagnosis.sites.attributes import other_arguments, other_attributes
from keras_pe.export.parity.diagnosis.sites.inputs import exchanged_inputs
from keras_pe.export.parity.diagnosis.sites.layer_weights import lost_weights, other_normalizations
from keras_pe.export.parity.diagnosis.sites.operations import other_directions, other_operations
from keras_pe.export.parity.diagnosis.sites.pixels import other_paddings, other_places
from keras_pe.export.parity.diagnosis.sites.positions import other_buckets, other_rotations
from keras_pe.export.parity.diagnosis.sites.several_layers import several_layers
from keras_pe.export.results import Finding

_SITES = (
    other_arguments,
    other_masks,
    exchanged_inputs,
    other_directions,
    other_rotations,
    other_buckets,
    other_normalizations,
    other_softmax,
    other_paddings,
    other_places,
    other_operations,
    other_attributes,
    lost_weights,
)
"""Where outputs alone tell one layer from another: what is done to a weight of one may be done to that of the next."""


def changed_layers(probe: Probe) -> Iterator[Finding]:
    """A layer that became something else, or several, in an artifact of which the outputs alone tell."""
    from keras_pe.export.comparison.references.keras import KerasReference

    number = telling_case(probe)
    if number is None or not isinstance(probe.reference, KerasReference):
        return
    outside = OutsideView(probe, probe.reference, number)
    probe = replace(probe, others=outside.others)
    for fault in outside.faults():
        probe.budget.check()
        found = explain(probe, fault, (several_layers,) if fault.through is None else _SITES)
        if found is not None and found.is_exact:
            yield found.finding if fault.through is not None else replace(found.finding, layer=None)
            return
