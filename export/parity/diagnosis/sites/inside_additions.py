"""Edits that add to an operation inside a layer: a factor, a number, or a function of a result or operand."""

from collections.abc import Callable
from functools import partial
from typing import Any

from keras_pe.export.model.watch.operations import Operation, tensors_in
from keras_pe.export.parity.diagnosis.edits import Edits
from keras_pe.export.parity.diagnosis.inside_calls import again
from keras_pe.export.parity.diagnosis.layer_call import as_array
from keras_pe.export.parity.diagnosis.operation_edits import EditedOperation, changed_operand, fits, with_operands
from keras_pe.export.parity.diagnosis.relations.scaling import cause_of_factor
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

    result, operands = edited.result, edited.operation.operands
    if result is None:
        return
    if not _is_float(result):
        if as_array(result).dtype.kind == "b":
            yield edited.change_result(Cause.INVERTED_MASK, "inverted", keras.ops.logical_not)
        else:
            for step in (1, -1):
                yield edited.change_result(Cause.SHIFTED_INPUT, f"plus {step}", partial(_plus, step))
        return
    floats = [number for number, operand in enumerate(operands) if _is_float(operand)]
    for function, start, description in ((_times, 1.0, "times {}"), (_plus, 0.0, "plus {}")):
        yield edited.numeric(start, description, partial(_result_changed, function), _cause_of_number(start))
        for number in floats:
            change = partial(_operand_changed, function, number)
            yield edited.numeric(
                start, f"given its operand {number + 1} {description}", change, _cause_of_number(start)
            )
    for name, own in unary_functions().items():
        text = f"through {name}"
        yield edited.change_result(Cause.OPERATION_ADDED, text, own)
        for number in floats:
            description = f"given its operand {number + 1} {text}"
            yield edited.change_operands(Cause.OPERATION_ADDED, description, partial(changed_operand, number, own))
    for number in floats:
        for description, name in _JOINED.items() if fits(operands[number], result) else ():
            change = partial(_join, getattr(keras.ops, name), number)
            yield edited.edit(Cause.OPERATION_ADDED, f"{description} its operand {number + 1}", change)


def _join(function: Callable[..., Any], number: int, operation: Operation, arguments: Any, names: Any) -> Any:
    return function(again(operation, arguments, names), tensors_in((arguments, dict(names)))[number])


def _times(number: float, tensor: Any) -> Any:
    return tensor * number


def _plus(number: float, tensor: Any) -> Any:
    return tensor + number


def _result_changed(function: Callable[[float, Any], Any], number: float) -> Any:
    return lambda op, args, names: function(number, again(op, args, names))


def _operand_changed(function: Callable[[float, Any], Any], operand: int, number: float) -> Any:
    return partial(with_operands, partial(changed_operand, operand, partial(function, number)))


def _cause_of_number(start: float) -> Callable[[float], Cause]:
    return (lambda _: Cause.OFFSET_VALUES) if start == 0 else cause_of_factor


def _is_float(tensor: Any) -> bool:
    return as_array(tensor).dtype.kind not in "biu"
