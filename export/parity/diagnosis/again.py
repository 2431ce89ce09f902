"""A recorded call of a layer made again, with one thing about the layer or what it is given changed."""

import inspect
from typing import Any

import numpy as np

from keras_pe.export.model.state import state_left_alone
from keras_pe.export.parity.diagnosis.probe import LayerFault
from keras_pe.export.parity.results import Array


def with_attributes(fault: LayerFault, change: dict[str, Any], kind: Any = None) -> Array:
    """Returns what the layer gives with other attributes and the same weights, as a layer of another class if asked."""
    layer = fault.call.layer
    config = _config(layer)
    if kind is not None:
        config = {name: value for name, value in config.items() if name in inspect.signature(kind).parameters}
    again = (kind or type(layer)).from_config({**config, **change, "name": layer.name})
    if layer.built and not again.built:
        again.build_from_config(layer.get_build_config() or {})
    weights = layer.get_weights()
    if "use_bias" in change or "center" in change or "scale" in change:
        by_name = {v.path.rpartition("/")[2]: w for v, w in zip(layer.weights, weights, strict=True)}
        for variable in again.weights:
            variable.assign(by_name.get(variable.path.rpartition("/")[2], 0.0 * variable))
    else:
        again.set_weights(weights)
    return call(again, given(fault), fault)


def _config(layer: Any) -> dict[str, Any]:
    """Returns a layer's configuration, with the functions themselves: not each can be made from its description."""
    import keras

    own = {name: getattr(layer, name, None) for name in layer.get_config()}
    functions = {name: v for name, v in own.items() if callable(v) and not isinstance(v, keras.Layer | type)}
    return {**layer.get_config(), **functions}


def with_private(fault: LayerFault, name: str, value: float) -> Array:
    """Returns what the layer gives while a number that it keeps for itself is another."""
    own, kept = vars(fault.call.layer), vars(fault.call.layer)[name]
    own[name] = value  # setattr() would track it
    try:
        return call(fault.call.layer, given(fault), fault)
    finally:
        own[name] = kept


def with_weight(fault: LayerFault, variable: Any, value: Array) -> Array:
    """Returns what the layer gives with other values of one weight."""
    with state_left_alone([(variable, as_tensor(value.astype(variable.dtype)))]):
        return call(fault.call.layer, given(fault), fault)


def with_input(fault: LayerFault, old: Array, new: Array) -> Array:
    """Returns what the layer gives with another array in the place of one that it was given."""
    import keras

    def put(leaf: Any) -> Any:
        if not keras.ops.is_tensor(leaf):
            return leaf
        array = as_array(leaf)
        is_meant = array.shape == old.shape and array.dtype == old.dtype and np.array_equal(array, old)
        return as_tensor(new.astype(array.dtype)) if is_meant else leaf

    return call(fault.call.layer, keras.tree.map_structure(put, given(fault)), fault)


def given(fault: LayerFault) -> dict[str, Any]:
    """Returns the arguments of the recorded call by name."""
    signature = inspect.signature(fault.call.layer.call)
    return dict(signature.bind(*fault.call.arguments, **fault.call.keywords).arguments)


def call(layer: Any, arguments: dict[str, Any], fault: LayerFault) -> Array:
    """Calls a layer with arguments by name, and returns the output that is at fault."""
    import keras

    bound = inspect.BoundArguments(inspect.signature(layer.call), arguments)
    result = layer.call(*bound.args, **bound.kwargs)
    tensors = [leaf for leaf in keras.tree.flatten(result) if keras.ops.is_tensor(leaf)]
    return as_array(tensors[fault.index])


def as_array(tensor: Any) -> Array:
    """Returns a tensor of Keras as an array."""
    import keras

    array: Array = keras.ops.convert_to_numpy(tensor)
    return array


def as_tensor(array: Array) -> Any:
    """Returns an array as a tensor of Keras."""
    import keras

    return keras.ops.convert_to_tensor(array)
