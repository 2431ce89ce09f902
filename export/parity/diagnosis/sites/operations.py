"""What an operation may have become: left out, another one, one too many, in another order or direction."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Compute, Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import (
    LayerFault,
    as_array,
    as_tensor,
    call,
    given,
    with_attributes,
    with_inputs,
)
from keras_pe.export.parity.diagnosis.relations import proposals
from keras_pe.export.parity.diagnosis.sites.layer_weights import exchanged
from keras_pe.export.parity.diagnosis.sites.other_values import activations
from keras_pe.export.results import Array, Cause

_MOST_JOINED = 4  # inputs, whose orders are 24 then
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
    """Yields what the artifact may hold in the place of an output: the operation left out, or another one."""
    inputs = fault.call.inputs
    for number, array in enumerate(inputs):
        if array.dtype.kind == "f":
            what = "what it is given" if len(inputs) == 1 else f"input {number} of {len(inputs)} alone"
            yield _edit(Cause.LAYER_LEFT_OUT, what, itemgetter(number))
    yield Edit(Cause.FLIPPED_SIGN, "the negative", lambda fault: -fault.expected, is_output=True)
    yield from _other_orders(inputs, fault.expected.shape)
    if len(inputs) == 2 and all(array.dtype.kind == "f" for array in inputs):
        for said, function in _OF_TWO.items():
            yield _edit(Cause.OTHER_OPERATION, f"{said} of the two inputs", partial(_of_two, function))


def added_operations(fault: LayerFault) -> Edits:
    """Yields an operation too many after the layer: its output through an activation, through the layer once more, or
    as that of the first row of the batch."""
    own = getattr(fault.call.layer, "activation", None)
    functions = {**({"its own activation once more": own} if callable(own) else {}), **activations()}
    for name, function in functions.items():
        yield Edit(Cause.OPERATION_ADDED, f"its output through {name}", partial(_activated, function), is_output=True)
    floats = [number for number, array in enumerate(fault.call.inputs) if array.dtype.kind == "f"]
    if len(floats) == 1 and fault.call.inputs[floats[0]].shape == fault.expected.shape:
        said = "given its own output once more"
        yield Edit(Cause.OPERATION_ADDED, said, lambda f: with_inputs(f, [(f.call.inputs[floats[0]], f.expected)]))
    first_row = proposals.FIRST_ROW
    said = first_row.template.format("its output")
    yield Edit(first_row.cause, said, lambda fault: first_row.change(fault.expected), is_output=True)


def _other_orders(inputs: Sequence[Array], shape: tuple[int, ...]) -> Edits:
    if len(inputs) == 1 and inputs[0].shape != shape and inputs[0].size == np.prod(shape):
        for order in list(itertools.permutations(range(1, inputs[0].ndim)))[1:]:
            said = f"what it is given, reshaped with its axes as {[0, *order]}"
            yield Edit(Cause.OTHER_ORDER, said, partial(_reshaped, order=order), is_output=True)
    if 1 < len(inputs) <= _MOST_JOINED and all(array.ndim == len(shape) for array in inputs):
        for axis in (axis for axis in range(1, len(shape)) if sum(x.shape[axis] for x in inputs) == shape[axis]):
            for order in list(itertools.permutations(range(len(inputs))))[1:]:
                said = f"the inputs in the order {list(order)} along axis {axis}"
                yield _edit(Cause.OTHER_ORDER, said, partial(_joined, order=order, axis=axis))


def _edit(cause: Cause, said: str, function: Callable[[Sequence[Array]], Array]) -> Edit:
    """Returns the edit that puts a function of the inputs in the place of an output."""
    return Edit(cause, said, lambda fault: _as_output(function(fault.call.inputs), fault), is_output=True)


def _of_two(function: Callable[[Array, Array], Array], inputs: Sequence[Array]) -> Array:
    return function(*(array.astype(np.float64) for array in inputs))


def _reshaped(fault: LayerFault, order: tuple[int, ...]) -> Array:
    return fault.call.inputs[0].transpose(0, *order).reshape(fault.expected.shape)


def _joined(inputs: Sequence[Array], order: tuple[int, ...], axis: int) -> Array:
    return np.concatenate([inputs[i] for i in order], axis)


def _activated(function: Callable[[Any], Any], fault: LayerFault) -> Array:
    return as_array(function(as_tensor(fault.expected)))


def _as_output(array: Array, fault: LayerFault) -> Array | None:
    if array.shape == fault.expected.shape:
        return array
    try:
        return np.broadcast_to(array, fault.expected.shape)
    except ValueError:
        return None


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
