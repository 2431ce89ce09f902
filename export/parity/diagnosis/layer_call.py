"""A recorded call of a layer made again, with one thing about the layer or what it is given changed."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from keras_pe.export.model.watch.keras_internals import replaced_attributes
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array

_STEPS = 2  # of a recurrence: what it keeps from one to the next shows in the second


def with_attributes(fault: LayerFault, change: dict[str, Any], kind: Any = None) -> Array:
    """Returns what the layer gives with other attributes and the same weights, as a layer of another class if asked."""
    layer = fault.call.layer
    config = {name: "zeros" if name.endswith("_initializer") else v for name, v in _config(layer).items()}
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
        again.set_weights([_in_shape(w, v.shape) for w, v in zip(weights, again.weights, strict=True)])
    return call(again, given(fault), fault)


def _in_shape(weight: Array, shape: tuple[int, ...]) -> Array:
    """Returns a weight in another shape: of two biases that are added their sum, of one that and zeros."""
    if weight.shape == (2, *shape):
        summed: Array = weight[0] + weight[1]
        return summed
    return np.stack([weight, np.zeros_like(weight)]) if (2, *weight.shape) == shape else weight


def _config(layer: Any) -> dict[str, Any]:
    """Returns a layer's configuration, with the functions themselves: not each can be made from its description."""
    import keras

    own = {name: getattr(layer, name, None) for name in layer.get_config()}
    functions = {name: v for name, v in own.items() if callable(v) and not isinstance(v, keras.Layer | type)}
    return {**layer.get_config(), **functions}


def with_numbers(fault: LayerFault, numbers: Mapping[str, float]) -> Array:
    """Returns what the layer gives with other numbers, of its configuration or, of one name, that it keeps for itself.

    Those that it keeps for itself begin with an underscore.
    """
    private = {n: v for n, v in numbers.items() if n.startswith("_")}
    public = {n: v for n, v in numbers.items() if n not in private}
    with replaced_attributes(fault.call.layer, private):
        return with_attributes(fault, public) if public else call(fault.call.layer, given(fault), fault)


def with_weights(fault: LayerFault, values: Iterable[tuple[Any, Array]]) -> Array:
    """Returns what the layer gives with other values of some of its weights."""
    others = [(variable, as_tensor(array.astype(variable.dtype))) for variable, array in values]
    with state_left_alone(others):
        return call(fault.call.layer, given(fault), fault)


def with_inputs(fault: LayerFault, pairs: Iterable[tuple[Array, Array]]) -> Array:
    """Returns what the layer gives with other arrays in the places of some that it was given."""
    import keras

    def put(leaf: Any) -> Any:
        if not keras.ops.is_tensor(leaf):
            return leaf
        array = as_array(leaf)
        fitting = (new for old, new in pairs if old.dtype == array.dtype and np.array_equal(array, old))
        new = next(fitting, None)
        return leaf if new is None else as_tensor(new.astype(array.dtype))

    return call(fault.call.layer, keras.tree.map_structure(put, given(fault)), fault)


def shown(fault: LayerFault, result: Array | None) -> Array | None:
    """Returns what the layer in which a fault shows makes of a result."""
    if fault.through is None or result is None:
        return result
    return with_inputs(fault.through, [(fault.expected, result)])


def first_steps(fault: LayerFault) -> LayerFault | None:
    """Returns the same of a recurrent layer's first steps, which know nothing of those after them; None of another.

    A recurrence takes its time for each step: what does not even begin as the artifact does need not go on.
    """
    import keras

    layer, inputs = fault.call.layer, fault.call.arguments
    is_forward = isinstance(layer, keras.layers.RNN) and layer.return_sequences and not layer.go_backwards
    if not is_forward or fault.actual is None or fault.through is not None or not inputs:
        return None
    if given(fault).get("mask") is not None or fault.index > 0 or fault.actual.shape[1] <= _STEPS:
        return None
    outputs = (fault.expected[:, :_STEPS],)
    begun = replace(fault.call, arguments=(inputs[0][:, :_STEPS], *inputs[1:]), outputs=outputs)
    return replace(fault, call=begun, actual=fault.actual[:, :_STEPS])


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
