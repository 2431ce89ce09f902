"""What an operation might have become: left out, another one, or the same with its inputs in another order."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.probe import LayerFault
from keras_pe.export.results import Array

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


def instead_of_operation(fault: LayerFault) -> Iterator[tuple[str, str, Callable[[], Array | None]]]:
    """Yields what the artifact may hold in the place of an output: cause, sentence, and how it is computed."""
    inputs = fault.call.inputs
    for number, array in enumerate(inputs):
        if array.dtype.kind != "f":
            continue
        what = "what it is given" if len(inputs) == 1 else f"input {number} of {len(inputs)} alone"
        yield "layer left out", f"The artifact holds {what}.", partial(_as_output, array, fault)
        yield "flipped sign", "The artifact holds the negative.", lambda: -fault.expected
    if len(inputs) == 1 and inputs[0].shape != fault.expected.shape and inputs[0].size == fault.expected.size:
        for order in list(itertools.permutations(range(1, inputs[0].ndim)))[1:]:
            turned = np.reshape(inputs[0].transpose(0, *order), fault.expected.shape)
            text = f"The artifact reshapes what it is given with its axes as {[0, *order]}."
            yield "other order", text, partial(_as_output, turned, fault)
    yield from _joined_otherwise(fault)
    if len(inputs) == 2 and all(array.dtype.kind == "f" for array in inputs):
        one, other = (array.astype(np.float64) for array in inputs)
        for said, function in _OF_TWO.items():
            text = f"The artifact holds {said} of the two inputs."
            yield "other operation", text, partial(_applied, function, one, other, fault)


def _joined_otherwise(fault: LayerFault) -> Iterator[tuple[str, str, Callable[[], Array | None]]]:
    """Yields the inputs of a concatenation in every other order."""
    inputs, shape = fault.call.inputs, fault.expected.shape
    if not 1 < len(inputs) <= _MOST_JOINED or any(array.ndim != len(shape) for array in inputs):
        return
    for axis in range(1, len(shape)):
        if sum(array.shape[axis] for array in inputs) != shape[axis]:
            continue
        for order in list(itertools.permutations(range(len(inputs))))[1:]:
            text = f"The artifact holds the inputs in the order {list(order)} along axis {axis}."
            yield "other order", text, partial(np.concatenate, [inputs[i] for i in order], axis)


def _applied(function: Callable[[Array, Array], Array], one: Array, other: Array, fault: LayerFault) -> Array | None:
    return _as_output(function(one, other), fault)


def _as_output(array: Array, fault: LayerFault) -> Array | None:
    if array.shape == fault.expected.shape:
        return array
    try:
        return np.broadcast_to(array, fault.expected.shape)
    except ValueError:
        return None
