"""A layer that reads a sequence both ways, with one of the two read or put together otherwise."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Compute, Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import call, given, with_attributes
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.parity.diagnosis.sites.layer_weights import exchanged
from keras_pe.export.results import Array, Cause

_MERGED: dict[str, Callable[[Array, Array], Array]] = {
    "concat": lambda one, other: np.concatenate([one, other], -1),
    "sum": np.add,
    "mul": np.multiply,
    "ave": lambda one, other: (one + other) / 2,
}


def other_directions(fault: LayerFault) -> Edits:
    """Yields what the layer gives where its two directions are not what they should be."""
    import keras

    layer = fault.call.layer
    if not isinstance(layer, keras.layers.Bidirectional) or layer.merge_mode is None or fault.index > 0:
        return
    merge, back = _MERGED[layer.merge_mode], layer.backward_layer

    def forwards(fault: LayerFault) -> Array:
        return call(layer.forward_layer, given(fault), fault)

    def backwards(fault: LayerFault) -> Array:
        """Returns the backward steps in the order in which they are made, the last of the sequence first."""
        return call(back, given(fault), fault)

    def turned(steps: Array) -> Array:
        return np.flip(steps, 1) if layer.return_sequences else steps

    def not_reversed(fault: LayerFault) -> Array:
        alone = replace(fault, call=replace(fault.call, layer=back))
        return with_attributes(alone, {"go_backwards": not back.go_backwards})

    changes: dict[str, Compute] = {
        "with the backward steps in the order in which they are made": lambda f: merge(forwards(f), backwards(f)),
        "with the backward output before the forward one": lambda f: merge(turned(backwards(f)), forwards(f)),
        "with the forward output twice": lambda f: merge(forwards(f), forwards(f)),
        "with both layers reading forwards": lambda f: merge(forwards(f), not_reversed(f)),
    }
    for said, compute in changes.items():
        yield Edit(Cause.OTHER_DIRECTION, said, compute)
    pairs = list(zip(layer.forward_layer.weights, back.weights, strict=True))
    yield exchanged(pairs, "the weights of both directions")
