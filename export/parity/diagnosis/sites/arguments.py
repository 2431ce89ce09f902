"""An argument of the call beside the arrays that the layer works on: left out, or another one."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import call, given
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause


def with_arguments(cause: Cause, said: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Edit:
    """Returns the edit that gives a call other arguments by name, which are made of those that it has."""

    def compute(fault: LayerFault) -> Array:
        arguments = given(fault)
        return call(fault.call.layer, {**arguments, **change(arguments)}, fault)

    return Edit(cause, said, compute)


def without(*names: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Returns what leaves arguments out."""
    return lambda _: dict.fromkeys(names)


def other_arguments(fault: LayerFault) -> Edits:
    """Yields the layer without each argument that it may go without, and as it computes in training."""
    import keras

    parameters = inspect.signature(fault.call.layer.call).parameters
    for name, value in given(fault).items():
        is_optional = parameters[name].default is None and "mask" not in name
        if is_optional and any(map(keras.ops.is_tensor, keras.tree.flatten(value))):
            yield with_arguments(Cause.DROPPED_INPUT, f"without `{name}`", without(name))
    if "training" in parameters:
        said = "as in training, by the statistics of the batch," if hasattr(fault.call.layer, "moving_mean") else ""
        yield with_arguments(Cause.TRAINING_MODE, said or "as in training", in_training)


def in_training(_: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what lets a layer compute as in training."""
    return {"training": True}
