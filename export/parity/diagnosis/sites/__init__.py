"""The sites of possible changes. Each yields edits of a recorded call that may give the artifact's numbers.

The table has the order of the search: the likeliest and cheapest sites first.
"""

from enum import Flag, auto

from keras_pe.export.parity.diagnosis.edits import Site
from keras_pe.export.parity.diagnosis.sites.arguments import (
    other_arguments,
    other_makers,
    other_masks,
    other_softmax,
    several_layers,
)
from keras_pe.export.parity.diagnosis.sites.attributes import other_attributes
from keras_pe.export.parity.diagnosis.sites.buckets import other_buckets
from keras_pe.export.parity.diagnosis.sites.call_arrays import (
    altered_inputs,
    dropped_inputs,
    exchanged_inputs,
    lost_weights,
    other_inputs,
    other_sources,
    other_weights,
    weights_together,
)
from keras_pe.export.parity.diagnosis.sites.configurations import other_configurations
from keras_pe.export.parity.diagnosis.sites.indices import (
    other_counts,
    other_indices,
    other_vocabularies,
    shifted_indices,
)
from keras_pe.export.parity.diagnosis.sites.output_operations import (
    added_operations,
    other_directions,
    other_functions,
    other_normalizations,
    other_operations,
    repeated_activation,
    repeated_operations,
)
from keras_pe.export.parity.diagnosis.sites.output_values import changed_values
from keras_pe.export.parity.diagnosis.sites.pixels import other_paddings, other_places
from keras_pe.export.parity.diagnosis.sites.position_layers import any_positions, other_positions, other_schedules
from keras_pe.export.parity.diagnosis.sites.scalings import any_rates


class Seen(Flag):
    """The part of an artifact that shows a site."""

    LAYER = auto()
    """The artifact's value of the layer's output."""
    OUTPUTS = auto()
    """The artifact's outputs alone, if they distinguish layers. A change of a weight may be one of the next weight."""
    STEPS = auto()
    """The first steps of a recurrence."""
    VALUES = auto()
    """The values of the layer's output alone, if the layer explains nothing."""
    INPUTS = auto()
    """The inputs of the layer, if nothing else explains its output."""
    MODEL = auto()
    """The artifact's outputs, with the model as one layer."""
    REPEATED = auto()
    """The artifact's outputs alone, if the model as one layer explains nothing. These sites come first for all layers.
    Another activation of the layer before gives the same outputs as an activation that is applied twice."""


_BOTH = Seen.LAYER | Seen.OUTPUTS

SITES: dict[Site, Seen] = {
    other_vocabularies: _BOTH,
    other_indices: Seen.LAYER,
    other_counts: Seen.LAYER,
    repeated_activation: Seen.REPEATED,
    repeated_operations: Seen.LAYER | Seen.REPEATED,
    other_operations: _BOTH,
    other_masks: _BOTH,
    other_arguments: _BOTH,
    other_makers: Seen.LAYER,
    exchanged_inputs: _BOTH,
    other_directions: _BOTH,
    other_buckets: _BOTH,
    other_configurations: _BOTH,
    other_positions: _BOTH,
    other_attributes: _BOTH | Seen.STEPS,
    other_functions: _BOTH,
    other_schedules: Seen.LAYER,
    any_positions: Seen.LAYER,
    any_rates: Seen.LAYER,
    other_normalizations: _BOTH,
    other_softmax: _BOTH,
    other_weights: Seen.LAYER | Seen.STEPS,
    weights_together: Seen.LAYER,
    other_paddings: _BOTH,
    other_places: _BOTH,
    lost_weights: Seen.OUTPUTS,
    other_sources: Seen.OUTPUTS,
    dropped_inputs: Seen.LAYER,
    other_inputs: Seen.LAYER,
    added_operations: Seen.LAYER,
    changed_values: Seen.VALUES,
    altered_inputs: Seen.INPUTS,
    shifted_indices: Seen.INPUTS,
    several_layers: Seen.MODEL,
}


def sites_seen(what: Seen) -> tuple[Site, ...]:
    """Returns the sites that a part of an artifact shows, in their order."""
    return tuple(site for site, seen in SITES.items() if what in seen)
