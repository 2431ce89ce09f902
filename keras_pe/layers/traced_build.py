"""Builds a layer whose first call TorchDynamo traces: a graph can contain neither new weights nor new tables."""

from typing import Any

import keras

from keras_pe.rotations.static_values import at_trace_time


def build_in_trace(layer: keras.layers.Layer, inputs: Any, axes: tuple[int, ...], **state: Any) -> None:
    """Builds a layer, if it is not built, while TorchDynamo traces its call.

    Args:
        layer: The layer.
        inputs: First argument of the call.
        axes: The axes whose sizes `build` reads. The compiled graph holds for these sizes alone, and for any others.
        state: Attributes that the layer must have before it is built.
    """
    rank = len(inputs.shape)
    read = {axis % rank for axis in axes if -rank <= axis < rank}
    # TorchDynamo makes the end of a range a constant.
    _build(layer, tuple(len(range(inputs.shape[axis])) if axis in read else None for axis in range(rank)), state)


@at_trace_time
def _build(layer: keras.layers.Layer, shape: tuple[int | None, ...], state: dict[str, Any]) -> None:
    if not layer.built:  # A trace that reads this would be valid for a layer that is not built.
        vars(layer).update(state)
        layer.build(shape)
