"""Edits that add to an operation inside a layer: a factor, a number, or a function of a result or operand."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.operations import Operation, again, tensors_in
from keras_pe.export.parity.diagnosis.edits import INVERTED, Edits, integer_steps, through
from keras_pe.export.parity.diagnosis.layer_call import as_array
from keras_pe.export.parity.diagnosis.operation_edits import EditedOperation, fits
from keras_pe.export.results import Cause

_UNARY = (
    *("abs", "negative", "square", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh"),
    *("sigmoid", "relu", "relu6", "silu", "gelu", "softplus", "softsign", "elu", "selu", "hard_sigmoid", "softmax"),
    *("log_softmax", "leaky_relu", "floor", "round", "ceil", "trunc", "sign"),
)

_JOINED = {"plus": "add", "times": "multiply", "minus": "subtract"}


def unary_functions() -> dict[str, Callable[[Any], Any]]:
    """Returns functions of one tensor by their names."""
    from keras import ops

    return {name.replace("_", " "): getattr(ops, name) for name in _UNARY} | {
        "rounding with halves up": lambda x: ops.floor(x + 0.5),
        "rounding with halves down": lambda x: ops.ceil(x - 0.5),
        "rounding with halves away from zero": lambda x: ops.sign(x) * ops.floor(ops.abs(x) + 0.5),
    }


def additions(edited: EditedOperation) -> Edits:
    """Yields an additional operation on the result or on an operand."""
    import keras

    result, operands, place = edited.result, edited.operation.operands, edited.result_place
    if result is None:
        return
    array = as_array(result)
    kind = array.dtype.kind
    floats = [number for number, operand in enumerate(operands) if as_array(operand).dtype.kind not in "biu"]
    if kind == "b" or np.array_equal(array, np.round(array)):  # a step of a position may show in a comparison alone
        yield from place.edits([INVERTED] if kind == "b" else integer_steps())
    if kind in "biu":
        for number in floats if kind != "b" else ():
            yield from edited.operand_place(number).edits(through(unary_functions(), Cause.OPERATION_ADDED))
        return
    places = [place, *map(edited.operand_place, floats)]
    # A number or table of the operation may be another one instead.
    stated = [at for each in edited.operation.constants for at in edited.tape.stating(edited.operation, each.key)]
    numbers = [replace(each, code=tuple(dict.fromkeys((*each.code, *stated)))) for each in places]
    yield from (each.scaling_edit(Cause.SCALED_VALUES) for each in numbers)
    yield from (each.offset_edit() for each in numbers)
    for proposal, each in itertools.product(through(unary_functions(), Cause.OPERATION_ADDED), places):
        yield from each.edits([proposal])
    for number in floats:
        for description, name in _JOINED.items() if fits(operands[number], result) else ():
            change = partial(_join, getattr(keras.ops, name), number)
            yield edited.edit(Cause.OPERATION_ADDED, f"{description} its operand {number + 1}", change)


def _join(function: Callable[..., Any], number: int, operation: Operation, arguments: Any, names: Any) -> Any:
    return function(again(operation, arguments, names), tensors_in((arguments, dict(names)))[number])
