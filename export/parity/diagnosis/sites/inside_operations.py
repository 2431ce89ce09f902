"""Edits of an operation inside a layer: removed, extended, or with other operands, axes, constants or functions."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.operations import CodePlace, Operation, is_plain_tensor, tensors_in
from keras_pe.export.parity.diagnosis.edits import ALL_TRUE, Edit, Edits, Site, stored_instead
from keras_pe.export.parity.diagnosis.inside_calls import Source, Tape, Tapes, again
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.parity.diagnosis.operation_edits import (
    EditedOperation,
    fits,
    named_arguments,
    put,
    with_leaf,
    with_operands,
)
from keras_pe.export.parity.diagnosis.relations import is_number
from keras_pe.export.parity.diagnosis.sites.inside_additions import additions, unary_functions
from keras_pe.export.parity.diagnosis.sites.inside_orders import (
    AXES,
    exchanged_pair,
    other_operation_axes,
    other_orders,
    other_slices,
    subscripts_beside,
    transposed_operands,
)
from keras_pe.export.results import Array, Cause

_MOST_SOURCES = 12  # tensors to try as an operand, the nearest earlier ones
_MOST_ORDERS = 24
_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "floor_divide", "matmul")
_COMPARED = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or")
_REDUCED = ("sum", "mean", "max", "min", "prod", "var", "std", "logsumexp", "any", "all", "argmax", "argmin")
_SMALL = (0, 1, -1, 2, 3, 4, 8)
_OPTIONS = frozenset(
    {"epsilon", "k", "num_classes", "negative_slope", "alpha", "shift", "decimals", "repeats", "indices_or_sections"}
)
_EPSILON = 1e-2  # a smaller constant serves to avoid a division by zero


def operations_at(
    places: Sequence[CodePlace],
    tapes: Tapes,
    exchanged: Sequence[tuple[Source, Source, CodePlace]] = (),
    before: Sequence[CodePlace] = (),
) -> Site:
    """Returns the site of the operations at some places in a user's code, in this order.

    Args:
        places: The places of the operations that may be at fault.
        tapes: The operations of the layer's calls.
        exchanged: Pairs of tensors that may be exchanged for all readers, with the place to report.
        before: The places of correct operations whose results only `places` read. A change of such a result affects all
            readers.
    """

    def operations_inside(fault: LayerFault) -> Edits:
        tape = tapes(fault.call)
        stored = fault.around.constants()
        first = {operation.place: number for number, operation in reversed(list(enumerate(tape.operations)))}
        edited, earlier = (
            [EditedOperation(fault.call.layer, tapes, tape, first[place], stored) for place in each if place in first]
            for each in (places, before)
        )
        for each in edited:
            yield from _other_limits(each)
        for each in edited:
            yield from _left_out(each)
        for one, other, place in exchanged if edited else ():
            yield edited[0].exchange(one, other, place)
        tried = itertools.product(_OTHERS, edited), itertools.product(_OTHERS, earlier)
        for family, each in itertools.chain(*tried, itertools.product([additions], [*edited, *earlier])):
            with contextlib.suppress(ValueError, TypeError, ArithmeticError, LookupError):
                yield from family(each)  # operations of other libraries may have arguments that a family cannot handle

    return operations_inside


def _other_limits(edited: EditedOperation) -> Edits:
    """Yields another limit of integers in a comparison, such as the window of a mask.

    Another number before the comparison has the same effect, so these edits come first.
    """
    if edited.result is None or as_array(edited.result).dtype.kind != "b":
        return
    if all(as_array(each).dtype.kind in "iu" for each in edited.operation.operands):
        for each in named_arguments(edited.operation):
            if isinstance(each.value, int) and not isinstance(each.value, bool):
                near = (each.value + 1, each.value - 1)
                yield from edited.with_values(_cause_of_constant(each.name, each.value), each, near)


def _left_out(edited: EditedOperation) -> Edits:
    """Yields the operation left out, and a mask that hides nothing."""
    result, operands = edited.result, edited.operation.operands
    if result is None:
        return
    is_alone = len(operands) == 1 and tuple(operands[0].shape) != tuple(result.shape)
    for number, operand in enumerate(operands if not is_alone else ()):
        if fits(operand, result):
            description = "left out" if len(operands) == 1 else f"replaced by its operand {number + 1}"
            yield edited.edit(Cause.OPERATION_LEFT_OUT, description, partial(_operand_alone, number))
    for place, source in _inputs_like(edited, result):
        yield edited.replace_result(source, Cause.OPERATION_LEFT_OUT, place)
    if as_array(result).dtype.kind == "b":
        yield from edited.result_place.edits([ALL_TRUE])


def _other_operands(edited: EditedOperation) -> Edits:
    """Yields exchanged operands, and an operand or a result of several readers replaced by another tensor or weight."""
    operation, tape = edited.operation, edited.tape
    for one, other in itertools.combinations(range(len(operation.operands)), 2):
        description = f"given its operands {one + 1} and {other + 1} exchanged"
        yield edited.change_operands(Cause.EXCHANGED_INPUTS, description, partial(exchanged_pair, one, other))
    values = _values(operation)
    for one, other in itertools.combinations(values, 2):
        if any(is_number(operation.arguments[each]) for each in (one, other)):
            description = f"given its arguments {one + 1} and {other + 1} exchanged"
            yield edited.edit(Cause.EXCHANGED_INPUTS, description, partial(_exchanged_arguments, one, other))
    for number, operand in enumerate(operation.operands):
        for source in _sources_like(tape, edited.number, operand):
            yield edited.replace_operand(source, number)
    if edited.result is not None and len(tape.consumers(edited.number)) > 1:
        for source in _sources_like(tape, edited.number, edited.result):
            yield edited.replace_result(source, Cause.OTHER_INPUT)
    yield from _other_variables(edited)


def _other_variables(edited: EditedOperation) -> Edits:
    """Yields a weight replaced by another weight of the layer, or transposed."""
    import keras

    same = (each for each in edited.tape.operations if each.place == edited.operation.place)
    leaves = {id(leaf): leaf for each in same for leaf in each.leaves if isinstance(leaf, keras.Variable)}
    for used in leaves.values():
        for other in edited.layer.variables:
            if other is not used and other.shape == used.shape and other.dtype == used.dtype:
                description = f"given {other.path!r} instead of {used.path!r}"
                yield edited.edit(Cause.ANOTHER_WEIGHT, description, partial(with_leaf, used, other))
                yield edited.replace_everywhere(Cause.ANOTHER_WEIGHT, description, used, other)
        if len(used.shape) == 2 and used.shape[0] == used.shape[1]:
            turned = partial(with_leaf, used, keras.ops.transpose(used))
            yield edited.edit(Cause.TRANSPOSED_AXES, f"given {used.path!r} transposed", turned)


def _other_constants(edited: EditedOperation) -> Edits:
    """Yields other numbers, booleans and orders of numbers among the arguments."""
    for each in named_arguments(edited.operation):
        name, value, cause = each.name, each.value, _cause_of_constant(each.name, each.value)
        yield from edited.with_values(cause, each, stored_instead(value, edited.constants))
        if isinstance(value, bool | np.bool_):
            yield from edited.with_values(cause, each, [not value])
        elif isinstance(value, int | np.integer) and name not in (*AXES, "self"):
            near = dict.fromkeys((value + 1, value - 1, 2 * value, value // 2, -value, *_SMALL))
            yield from edited.with_values(cause, each, (type(value)(other) for other in near if other != value))
        if is_number(value) and name not in AXES:
            yield edited.with_number(cause, each)
        elif isinstance(value, tuple | list) and name not in AXES and all(isinstance(size, int) for size in value):
            orders = (type(value)(order) for order in itertools.islice(itertools.permutations(value), 1, _MOST_ORDERS))
            yield from edited.with_values(Cause.OTHER_ORDER, each, (order for order in orders if order != value))
        elif isinstance(value, str) and name in ("subscripts", "equation"):
            yield from edited.with_values(Cause.OTHER_AXIS, each, subscripts_beside(value))


def _cause_of_constant(name: str, value: Any) -> Cause:
    """Returns the cause of another value of a constant. A constant of an operator has no name of its own."""
    if is_number(value) and 0 < abs(value) < _EPSILON:
        return Cause.OTHER_EPSILON
    return Cause.attribute("constant" if len(name) < 3 or name == "other" else name)


def _other_functions(edited: EditedOperation) -> Edits:
    """Yields other functions of the same operands."""
    import keras

    operation, result = edited.operation, edited.result
    if result is None:
        return
    operands = operation.operands
    if _values(operation) == [0, 1]:
        for name in _COMPARED if as_array(result).dtype.kind == "b" else _BINARY:
            function = getattr(keras.ops, name)
            description = f"as {name.replace('_', ' ')}"
            yield edited.edit(Cause.OTHER_OPERATION, description, partial(_through, function, 2, {}))
            back = partial(_through, lambda one, other, f=function: f(other, one), 2, {})
            yield edited.edit(Cause.OTHER_OPERATION, f"{description} of its operands exchanged", back)
    elif len(operands) == 1 and tuple(operands[0].shape) == tuple(result.shape):
        for name, function in unary_functions().items():
            yield edited.edit(Cause.OTHER_OPERATION, f"as {name}", partial(_through, function, 1, {}))
    elif len(operands) == 1:
        options = {name: value for _, name, value in named_arguments(operation) if name in ("axis", "keepdims")}
        for name in _REDUCED:
            change = partial(_through, getattr(keras.ops, name), 1, options)
            yield edited.edit(Cause.OTHER_OPERATION, f"as {name.replace('_', ' ')}", change)
    for (place, source), other in itertools.product(_inputs_like(edited, result), unary_functions().items()):
        yield edited.replace_result(source, Cause.OTHER_OPERATION, place, other)


def _other_sequences(edited: EditedOperation) -> Edits:
    """Yields the operation after the next one instead of before it, each with its other operands unchanged."""
    tape, first, result = edited.tape, edited.operation, edited.result
    after = tape.consumers(edited.number)
    if len(after) != 1 or tape.is_output(edited.number) or result is None:
        return
    second = tape.operations[after[0]]
    if len(second.outputs) > 1 or first.place == second.place:
        return
    for number, operand in enumerate(first.operands):
        if tuple(operand.shape) == tuple(result.shape):
            compute = partial(_after_next, edited, first.place, second.place, number)
            description = f"after `{second.place.text}` instead of before it"
            yield Edit(Cause.OTHER_ORDER, description, compute, place=first.place)


def _after_next(edited: EditedOperation, first: CodePlace, second: CodePlace, number: int, fault: LayerFault) -> Array:
    waiting = list[tuple[Operation, Any, Any]]()

    def hand_on(operation: Operation, arguments: Any, names: Any) -> Any:
        waiting.append((operation, arguments, names))
        return tensors_in((arguments, dict(names)))[number]

    def late(operation: Operation, arguments: Any, names: Any) -> Any:
        made = again(operation, arguments, names)
        return with_operands(lambda own: put(own, number, made), *waiting.pop())

    return edited.tapes(fault.call).replay({first: hand_on, second: late}, fault.index)


_OTHERS: tuple[Callable[[EditedOperation], Edits], ...] = (
    other_operation_axes,
    _other_constants,
    _other_functions,
    other_slices,
    _other_operands,
    other_orders,
    _other_sequences,
    transposed_operands,
)


def _values(operation: Operation) -> list[int]:
    """Returns the positions of arguments that are tensors, or numbers other than axes and options."""
    names = operation.parameters
    return [
        number
        for number, value in enumerate(operation.arguments)
        if is_plain_tensor(value) or (is_number(value) and not {*names[number : number + 1]} & (AXES | _OPTIONS))
    ]


def _exchanged_arguments(one: int, other: int, operation: Operation, arguments: Any, names: Any) -> Any:
    return again(operation, exchanged_pair(one, other, arguments), names)


def _operand_alone(number: int, operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns an operand in the shape of the result."""
    import keras

    operand = tensors_in((arguments, dict(names)))[number]
    shape = tuple(operation.outputs[0].shape)
    return operand if tuple(operand.shape) == shape else keras.ops.broadcast_to(operand, shape)


def _through(
    function: Callable[..., Any], count: int, options: Mapping[str, Any], _: Operation, arguments: Any, names: Any
) -> Any:
    """Returns the result of another function of the tensors, or of the first arguments."""
    operands = tensors_in((arguments, dict(names))) if count == 1 else list(arguments)[:count]
    return function(*operands, **options)


def _sources_like(tape: Tape, number: int, operand: Any) -> list[Source]:
    """Returns earlier tensors of the call with the shape and type of an operand, the nearest first."""
    results = [(n, place) for n in reversed(range(number)) for place in range(len(tape.operations[n].outputs))]
    known = [*results, *((-1, place) for place in range(len(tape.inputs)))]
    others = ((source, tape.tensor(source)) for source in known)
    same = (source for source, each in others if each is not operand and _is_alike(each, operand))
    return list(itertools.islice(same, _MOST_SOURCES))


def _inputs_like(edited: EditedOperation, result: Any) -> Iterator[tuple[CodePlace, Source]]:
    """Yields inputs with the shape and type of a result, each with the innermost user's function that reads it."""
    seen = set[Source]()
    for place, source in edited.tape.inputs_around(edited.number):
        if source not in seen and _is_alike(edited.tape.tensor(source), result):
            seen.add(source)
            yield place, source


def _is_alike(one: Any, other: Any) -> bool:
    return tuple(one.shape) == tuple(other.shape) and one.dtype == other.dtype
