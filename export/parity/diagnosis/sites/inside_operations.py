"""Edits of an operation inside a layer: removed, extended, or with other operands, axes, constants or functions."""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Operation, tensors_in
from keras_pe.export.parity.diagnosis.code_graph import Source
from keras_pe.export.parity.diagnosis.edits import ALL_TRUE, Edits, Site
from keras_pe.export.parity.diagnosis.inside_calls import Tapes
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.parity.diagnosis.operation_edits import AXES, EditedOperation, fits, is_alike, value_positions
from keras_pe.export.parity.diagnosis.relations import is_number, plain
from keras_pe.export.parity.diagnosis.sites.inside_additions import additions, unary_functions
from keras_pe.export.parity.diagnosis.sites.inside_functions import other_arguments
from keras_pe.export.parity.diagnosis.sites.inside_lines import other_directions, other_parts
from keras_pe.export.parity.diagnosis.sites.inside_loops import other_iterations
from keras_pe.export.parity.diagnosis.sites.inside_operands import exchanged_tensors, other_operands
from keras_pe.export.parity.diagnosis.sites.inside_orders import (
    other_operation_axes,
    other_orders,
    other_slices,
    rearrangements,
    subscripts_beside,
)
from keras_pe.export.parity.diagnosis.sites.inside_sequences import other_sequences, other_sequences_in_line
from keras_pe.export.parity.diagnosis.stored_constants import is_reordered, stored_instead
from keras_pe.export.results import Cause

_MOST_ORDERS = 24
_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "floor_divide", "matmul")
_COMPARED = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or")
_REDUCED = ("sum", "mean", "max", "min", "prod", "var", "std", "logsumexp", "any", "all", "argmax", "argmin")
_STEPS: tuple[Callable[[Any], Any], ...] = (
    *(lambda value: value + 1, lambda value: value - 1, lambda value: 2 * value),
    *(lambda value: value // 2, lambda value: -value),
)
_MOST_PADDED = 16  # values on one side
_SPELLINGS = MappingProxyType(
    {
        "mode": ("constant", "reflect", "symmetric", "edge", "wrap"),
        "padding": ("same", "valid", "causal"),
        "indexing": ("xy", "ij"),
        "interpolation": ("nearest", "bilinear", "bicubic"),
        "side": ("left", "right"),
    }
)
_SMALL = (0, 1, -1, 2, 3, 4, 8)
_EPSILON = 1e-2  # a smaller constant serves to avoid a division by zero


def operations_at(
    places: Sequence[CodePlace],
    tapes: Tapes,
    exchanged: Sequence[tuple[Source, Source, Sequence[int], tuple[CodePlace, ...]]] = (),
    before: Mapping[CodePlace, CodePlace] = MappingProxyType({}),
    located: Collection[CodePlace] = (),
) -> Site:
    """Returns the site of the operations at some places in a user's code, in this order.

    Args:
        places: The places of the operations that may be at fault.
        tapes: The operations of the layer's calls.
        exchanged: Pairs of tensors that may be exchanged for some readers, with the readers and the places to report.
        before: The places of correct operations that may be at fault, each with the place to report. A change of such a
            result affects all readers.
        located: The places of operations with a tensor of the artifact.
    """

    def operations_inside(fault: LayerFault) -> Edits:
        tape = tapes(fault.call)
        stored = fault.around.constants()
        leading = sorted(tape.before(tape.source(tape.outputs[fault.index]) or (-1, 0)))
        numbered = [(n, tape.operations[n]) for n in leading if tape.is_in_scope(tape.operations[n])]
        first = {operation.place: number for number, operation in reversed(numbered)}
        edited, earlier = (
            [
                EditedOperation(fault.call.layer, tapes, tape, first[place], stored, place in located)
                for place in each
                if place in first
            ]
            for each in (places, before)
        )
        every = [*edited, *earlier]
        elsewhere = [replace(each, elsewhere=True) for each in every]
        for each in (*edited, *elsewhere):
            yield from _other_limits(each)
        for each in edited:
            yield from _left_out(each)
        for one, other, readers, own in exchanged if edited else ():
            yield from (replace(each, places=own) for each in exchanged_tensors(edited[0], one, other, readers))
        yield from other_iterations(tapes, tape, places)
        same = [number for each in every for number in tape.at(each.operation.place)]
        read = [number for each in same for number, _ in tape.sources(each) if number >= 0]
        callers = dict.fromkeys(caller for number in (*same, *read) for caller in tape.operations[number].callers)
        tried: list[tuple[Sequence[Callable[[Any], Edits]], Iterable[Any]]] = [
            *((_OTHERS, edited), (_OTHERS, earlier), ([partial(other_arguments, tapes, tape)], callers)),
            ((_other_constants, other_slices), elsewhere),
            ((other_sequences, other_directions, rearrangements), every),
            ([additions], every),
        ]
        for family, each in itertools.chain.from_iterable(itertools.product(*pair) for pair in tried):
            with contextlib.suppress(ValueError, TypeError, ArithmeticError, LookupError):
                # Operations of other libraries may have arguments that a family cannot handle.
                for edit in family(each):
                    yield replace(edit, places=tuple(before.get(each, each) for each in edit.places))

    return operations_inside


def _other_limits(edited: EditedOperation) -> Edits:
    """Yields another limit of integers in a comparison, such as the window of a mask.

    Another number before the comparison has the same effect, so these edits come first.
    """
    if edited.result is None or as_array(edited.result).dtype.kind != "b":
        return
    if all(as_array(each).dtype.kind in "iu" for each in edited.operation.operands):
        for each in edited.arguments:
            if isinstance(each.value, int) and not isinstance(each.value, bool):
                yield from edited.with_changes(_cause_of_constant(each.name, each.value), each, _STEPS[:2])


def _left_out(edited: EditedOperation) -> Edits:
    """Yields the operation left out, and a mask that hides nothing.

    The last iteration of a loop has all operands. The first one may have a number, such as the start of a sum.
    """
    result, operands = edited.result, edited.last_call.operation.operands
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


def _other_constants(edited: EditedOperation) -> Edits:
    """Yields other numbers, booleans and orders of numbers among the arguments."""
    for each in edited.arguments:
        name, value, cause = each.name, each.value, _cause_of_constant(each.name, each.value)
        stored = stored_instead(value, edited.constants)
        if edited.elsewhere:  # the operation itself may take the values in another order
            stored = (other for other in stored if not is_reordered(value, other))
        yield from edited.with_values(cause, each, stored)
        if isinstance(value, bool | np.bool_):
            yield from edited.with_values(cause, each, [not value])
        elif isinstance(value, int | np.integer) and name not in (*AXES, "self"):
            yield from edited.with_changes(cause, each, _STEPS)
            yield from edited.with_values(cause, each, map(type(value), _SMALL))
        if is_number(value) and name not in AXES:
            yield from edited.with_numbers(cause, each)
        elif isinstance(value, tuple | list) and name not in AXES and all(isinstance(size, int) for size in value):
            orders = (type(value)(order) for order in itertools.islice(itertools.permutations(value), 1, _MOST_ORDERS))
            yield from edited.with_values(Cause.OTHER_ORDER, each, (order for order in orders if order != value))
        elif isinstance(value, tuple | list | np.ndarray) and _are_pairs(value):
            yield from edited.with_values(Cause.OTHER_PADDING, each, _other_sides(value))
        elif isinstance(value, str) and name in _SPELLINGS:
            yield from edited.with_values(cause, each, (other for other in _SPELLINGS[name] if other != value))
        elif isinstance(value, str) and name in ("subscripts", "equation"):
            yield from edited.with_values(Cause.OTHER_AXIS, each, subscripts_beside(value))


def _are_pairs(value: Any) -> bool:
    """Whether a value has two integers for each axis, as a padding does."""
    with contextlib.suppress(ValueError):
        pairs = np.asarray(value)
        return pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu"
    return False


def _other_sides(value: Any) -> Iterator[list[list[int]]]:
    """Yields a padding with the numbers of one axis otherwise on its two sides, and with all sides exchanged."""
    pairs = np.asarray(value).tolist()
    for axis, pair in enumerate(pairs):
        for first in range(min(sum(pair), _MOST_PADDED) + 1):
            yield [*pairs[:axis], [first, sum(pair) - first], *pairs[axis + 1 :]]
    yield [pair[::-1] for pair in pairs]


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
    if value_positions(operation) == [0, 1]:
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
        options = {name: plain(value) for _, name, value in operation.constants if name in ("axis", "keepdims")}
        for name in _REDUCED:
            change = partial(_through, getattr(keras.ops, name), 1, options)
            yield edited.edit(Cause.OTHER_OPERATION, f"as {name.replace('_', ' ')}", change)
    for (place, source), other in itertools.product(_inputs_like(edited, result), unary_functions().items()):
        yield edited.replace_result(source, Cause.OTHER_OPERATION, place, other)


_OTHERS: tuple[Callable[[EditedOperation], Edits], ...] = (
    other_operation_axes,
    _other_constants,
    _other_functions,
    other_slices,
    other_operands,
    other_orders,
    other_sequences_in_line,
    other_parts,
)


def _operand_alone(number: int, operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns an operand in the shape of the result."""
    import keras

    operands = tensors_in((arguments, dict(names)))
    operand = operands[min(number, len(operands) - 1)]
    shape = tuple(operation.outputs[0].shape)
    return operand if tuple(operand.shape) == shape else keras.ops.broadcast_to(operand, shape)


def _through(
    function: Callable[..., Any], count: int, options: Mapping[str, Any], _: Operation, arguments: Any, names: Any
) -> Any:
    """Returns the result of another function of the tensors, or of the first arguments."""
    operands = tensors_in((arguments, dict(names))) if count == 1 else list(arguments)[:count]
    return function(*operands, **options)


def _inputs_like(edited: EditedOperation, result: Any) -> Iterator[tuple[CodePlace, Source]]:
    """Yields inputs with the shape and type of a result, each with the innermost user's function that reads it."""
    seen = set[Source]()
    for place, source in edited.tape.inputs_around(edited.number):
        if source not in seen and is_alike(edited.tape.tensor(source), result):
            seen.add(source)
            yield place, source
