"""Edits of an output: operations removed, added or in another order."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np

from keras_pe.export.parity.diagnosis.edits import (
    FIRST_ROW,
    Compute,
    Edit,
    Edits,
    edits_of_makers,
    output_called,
    through,
)
from keras_pe.export.parity.diagnosis.layer_call import (
    LayerFault,
    arguments_of,
    as_array,
    call,
    on_arrays,
    with_attributes,
    with_inputs,
)
from keras_pe.export.parity.diagnosis.sites.activations import activations
from keras_pe.export.parity.diagnosis.sites.attributes import other_axes
from keras_pe.export.parity.diagnosis.sites.call_arrays import exchanged_weights
from keras_pe.export.parity.diagnosis.sites.inside_additions import unary_functions
from keras_pe.export.results import Array, Cause

_MOST_JOINED = 4  # largest number of inputs to permute, in 24 orders
_OF_TWO: dict[str, Callable[[Array, Array], Array]] = {
    "a - b": np.subtract,
    "b - a": lambda a, b: b - a,
    "a * b": np.multiply,
    "a + b": np.add,
    "the larger": np.maximum,
    "the smaller": np.minimum,
    "the mean": lambda a, b: (a + b) / 2,
}
_MERGED: dict[str, Callable[[Array, Array], Array]] = {
    "concat": lambda one, other: np.concatenate([one, other], -1),
    "sum": np.add,
    "mul": np.multiply,
    "ave": lambda one, other: (one + other) / 2,
}


def other_operations(fault: LayerFault) -> Edits:
    """Yields replacements of an output: without the operation, or with another operation."""
    inputs = fault.call.inputs
    for number, array in enumerate(inputs):
        if array.dtype.kind == "f":
            what = "the layer's input as its output" if len(inputs) == 1 else _alone(fault, number)
            yield _edit(Cause.LAYER_LEFT_OUT, what, itemgetter(number))
    yield Edit(Cause.FLIPPED_SIGN, "the negative", lambda fault: -fault.expected, is_output=True)
    yield from _other_orders(inputs, fault.expected.shape)
    if len(inputs) == 2 and all(array.dtype.kind == "f" for array in inputs):
        for description, function in _OF_TWO.items():
            yield _edit(Cause.OTHER_OPERATION, f"{description} of the two inputs", partial(_combine_two, function))


def other_functions(fault: LayerFault) -> Edits:
    """Yields an operation of a functional model as another function of its only input, such as another rounding."""
    shapes = [array.shape for array in fault.call.inputs if array.dtype.kind == "f"]
    if not hasattr(fault.call.layer, "variables") and shapes == [fault.expected.shape]:
        for name, function in unary_functions().items():
            yield _edit(
                Cause.OTHER_OPERATION, f"{name} of the layer's input", partial(_apply_to_first, on_arrays(function))
            )


def _apply_to_first(function: Callable[[Array], Array], inputs: Sequence[Array]) -> Array:
    return function(inputs[0])


def _alone(fault: LayerFault, number: int) -> str:
    """Returns text that names the only input that is used, and the unused inputs."""
    count = len(fault.call.inputs)
    sources = fault.around.sources or ("",) * count
    named = [f"input {each} ({source!r})" if source else f"input {each}" for each, source in enumerate(sources)]
    others = " and ".join(named[:number] + named[number + 1 :])
    return f"{named[number]} of {count} as its output, and does not read {others}"


def added_operations(fault: LayerFault) -> Edits:
    """Yields an additional operation after the layer.

    The output passes an activation or the layer once more, or every row of the batch has the output of the first row.
    """
    output = output_called("its output")
    yield from repeated_activation(fault)
    yield from output.edits(through(activations(), Cause.OPERATION_ADDED))
    if (whole := _layer_once_more(fault)) is not None:
        description = "the output of the layer given its own output"
        yield Edit(Cause.OPERATION_ADDED, description, whole, is_output=True)
    yield from output.edits([FIRST_ROW])


def repeated_operations(fault: LayerFault) -> Edits:
    """Yields the layer's output if the layer before it processes its own output once more."""
    yield from edits_of_makers(fault, _once_more, "f")


def repeated_activation(fault: LayerFault) -> Edits:
    """Yields the output of a layer after another pass through the layer's activation."""
    yield from _once_more(fault)


def _once_more(fault: LayerFault) -> Iterator[Edit]:
    """Yields the output after another pass through the layer's activation, or through a layer that is an activation.

    Other layers are excluded, since a layer that undoes itself has other causes too.
    """
    layer = fault.call.layer
    own = getattr(layer, "activation", None)
    is_activation = type(layer).__module__.startswith("keras.src.layers.activations.")
    what, again = "the layer", _layer_once_more(fault) if is_activation else None
    if callable(own):
        what, again = "its own activation", lambda fault: on_arrays(own)(fault.expected)
    if again is not None:
        yield Edit(Cause.OPERATION_ADDED, f"its output through {what} once more", again, is_output=True)


def _layer_once_more(fault: LayerFault) -> Compute | None:
    """Returns a second pass of a layer's output through the layer; None if the layer does not accept it."""
    floats = [number for number, array in enumerate(fault.call.inputs) if array.dtype.kind == "f"]
    if len(floats) != 1 or fault.call.inputs[floats[0]].shape != fault.expected.shape:
        return None
    return lambda f: with_inputs(f, [(f.call.inputs[floats[0]], f.expected)])


def _other_orders(inputs: Sequence[Array], shape: tuple[int, ...]) -> Edits:
    if len(inputs) == 1 and inputs[0].shape != shape and inputs[0].size == np.prod(shape):
        for order in list(itertools.permutations(range(1, inputs[0].ndim)))[1:]:
            description = f"the layer's input, reshaped with its axes in the order {[0, *order]}"
            yield Edit(Cause.OTHER_ORDER, description, partial(_reshape, order=order), is_output=True)
    if 1 < len(inputs) <= _MOST_JOINED and all(array.ndim == len(shape) for array in inputs):
        for axis in (axis for axis in range(1, len(shape)) if sum(x.shape[axis] for x in inputs) == shape[axis]):
            for order in list(itertools.permutations(range(len(inputs))))[1:]:
                description = f"the inputs in the order {list(order)} along axis {axis}"
                yield _edit(Cause.OTHER_ORDER, description, partial(_join, order=order, axis=axis))


def _edit(cause: Cause, description: str, function: Callable[[Sequence[Array]], Array]) -> Edit:
    """Returns the edit that replaces an output by a function of the inputs."""
    return Edit(cause, description, lambda fault: _as_output(function(fault.call.inputs), fault), is_output=True)


def _combine_two(function: Callable[[Array, Array], Array], inputs: Sequence[Array]) -> Array:
    return function(*(array.astype(np.float64) for array in inputs))


def _reshape(fault: LayerFault, order: tuple[int, ...]) -> Array:
    return fault.call.inputs[0].transpose(0, *order).reshape(fault.expected.shape)


def _join(inputs: Sequence[Array], order: tuple[int, ...], axis: int) -> Array:
    return np.concatenate([inputs[i] for i in order], axis)


def _as_output(array: Array, fault: LayerFault) -> Array | None:
    if array.shape == fault.expected.shape:
        return array
    try:
        return np.broadcast_to(array, fault.expected.shape)
    except ValueError:
        return None


def other_normalizations(fault: LayerFault) -> Edits:
    """Yields a layer normalization with the computation of another normalization."""
    layer = fault.call.layer
    if not all(hasattr(layer, name) for name in ("axis", "center", "scale", "epsilon")) or hasattr(layer, "momentum"):
        return
    description = "without the subtraction of the mean, as an RMSNormalization"
    yield Edit(Cause.OTHER_OPERATION, description, _by_mean_square)
    for axes in other_axes(layer.get_config()["axis"]):
        description = f"normalized over the axes {axes} instead of {layer.get_config()['axis']}"
        yield Edit(Cause.OTHER_AXIS, description, partial(_over_axes, axes=axes))


def _by_mean_square(fault: LayerFault) -> Array:
    x, layer = fault.call.inputs[0].astype(np.float64), fault.call.layer
    square = np.mean(x * x, axis=tuple(np.atleast_1d(layer.axis)), keepdims=True)
    return _with_own_weights(fault, x / np.sqrt(square + layer.epsilon))


def _over_axes(fault: LayerFault, axes: list[int]) -> Array:
    return _with_own_weights(fault, with_attributes(fault, {"axis": axes, "center": False, "scale": False}))


def _with_own_weights(fault: LayerFault, plain: Array) -> Array:
    """Returns normalized values after a normalization's own weights, which keep their axes."""
    layer, ndim = fault.call.layer, fault.expected.ndim
    own = {axis % ndim for axis in np.atleast_1d(layer.axis)}
    shape = [size if axis in own else 1 for axis, size in enumerate(fault.expected.shape)]
    scaled = plain * as_array(layer.gamma.value).reshape(shape) if layer.scale else plain
    return scaled + as_array(layer.beta.value).reshape(shape) if layer.center else scaled


def other_directions(fault: LayerFault) -> Edits:
    """Yields the layer's output if it, or one of its two directions, reads from the other end."""
    import keras

    layer = fault.call.layer
    if isinstance(layer, keras.layers.RNN) and layer.return_sequences and fault.index == 0:
        description = "reading from the other end, with each step in its position"
        yield Edit(Cause.OTHER_DIRECTION, description, lambda f: np.flip(_from_the_other_end(f), 1))
    if not isinstance(layer, keras.layers.Bidirectional) or layer.merge_mode is None or fault.index > 0:
        return
    merge, back = _MERGED[layer.merge_mode], layer.backward_layer

    def forwards(fault: LayerFault) -> Array:
        return call(layer.forward_layer, arguments_of(fault), fault)

    def backwards(fault: LayerFault) -> Array:
        """Returns the backward steps in their order of computation, the last of the sequence first."""
        return call(back, arguments_of(fault), fault)

    def flip_steps(steps: Array) -> Array:
        return np.flip(steps, 1) if layer.return_sequences else steps

    def not_reversed(fault: LayerFault) -> Array:
        return _from_the_other_end(replace(fault, call=replace(fault.call, layer=back)))

    changes: dict[str, Compute] = {
        "with the backward steps in their order of computation": lambda f: merge(forwards(f), backwards(f)),
        "with the backward output before the forward one": lambda f: merge(flip_steps(backwards(f)), forwards(f)),
        "with the forward output twice": lambda f: merge(forwards(f), forwards(f)),
        "with both layers reading forwards": lambda f: merge(forwards(f), not_reversed(f)),
    }
    for description, compute in changes.items():
        yield Edit(Cause.OTHER_DIRECTION, description, compute)
    pairs = list(zip(layer.forward_layer.weights, back.weights, strict=True))
    yield exchanged_weights(pairs, "the weights of both directions")


def _from_the_other_end(fault: LayerFault) -> Array:
    return with_attributes(fault, {"go_backwards": not fault.call.layer.go_backwards})
