"""What an operation may have become: left out, another one, or the same with its inputs in another order."""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
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


def other_operations(fault: LayerFault) -> Edits:
    """Yields what the artifact may hold in the place of an output."""

    def edit(cause: Cause, said: str, compute: Callable[[], Array]) -> Edit:
        return Edit(cause, said, lambda: _as_output(compute(), fault), is_output=True)

    inputs, shape = fault.call.inputs, fault.expected.shape
    for number, array in enumerate(inputs):
        if array.dtype.kind == "f":
            what = "what it is given" if len(inputs) == 1 else f"input {number} of {len(inputs)} alone"
            yield edit(Cause.LAYER_LEFT_OUT, what, partial(np.asarray, array))
    yield edit(Cause.FLIPPED_SIGN, "the negative", lambda: -fault.expected)
    if len(inputs) == 1 and inputs[0].shape != shape and inputs[0].size == fault.expected.size:
        for order in list(itertools.permutations(range(1, inputs[0].ndim)))[1:]:
            said = f"what it is given, reshaped with its axes as {[0, *order]}"
            yield edit(Cause.OTHER_ORDER, said, partial(np.reshape, inputs[0].transpose(0, *order), shape))
    if 1 < len(inputs) <= _MOST_JOINED and all(array.ndim == len(shape) for array in inputs):
        for axis in (axis for axis in range(1, len(shape)) if sum(x.shape[axis] for x in inputs) == shape[axis]):
            for order in list(itertools.permutations(range(len(inputs))))[1:]:
                said = f"the inputs in the order {list(order)} along axis {axis}"
                yield edit(Cause.OTHER_ORDER, said, partial(np.concatenate, [inputs[i] for i in order], axis))
    if len(inputs) == 2 and all(array.dtype.kind == "f" for array in inputs):
        one, other = (array.astype(np.float64) for array in inputs)
        for said, function in _OF_TWO.items():
            yield edit(Cause.OTHER_OPERATION, f"{said} of the two inputs", partial(function, one, other))


def _as_output(array: Array, fault: LayerFault) -> Array | None:
    if array.shape == fault.expected.shape:
        return array
    try:
        return np.broadcast_to(array, fault.expected.shape)
    except ValueError:
        return None
