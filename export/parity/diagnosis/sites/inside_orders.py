"""Edits of axes, slices and orders of values of an operation inside a layer."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.operations import Operation, tensors_in
from keras_pe.export.parity.diagnosis.edits import Edits, Proposal, backwards, block_orders, exchanged_axes, rolls
from keras_pe.export.parity.diagnosis.inside_calls import again
from keras_pe.export.parity.diagnosis.layer_call import as_array
from keras_pe.export.parity.diagnosis.operation_edits import EditedOperation, named_arguments, with_argument
from keras_pe.export.results import Array, Cause

AXES = frozenset({"axis", "axes", "dim", "dims", "axis1", "axis2", "source", "destination", "perm", "reduction_axes"})
"""Names of arguments that are axes."""

_PARTS = frozenset({"slice_spec", "idx", "key", "item", "index"})
_MOST_AXES = 5  # largest rank to permute, in 120 orders
_MOST_ORDERS = 24


def other_operation_axes(edited: EditedOperation) -> Edits:
    """Yields the operation over other axes."""
    operation = edited.operation
    rank = max((len(each.shape) for each in (*operation.operands, *operation.outputs)), default=0)
    for each in named_arguments(operation):
        if each.name in AXES and rank:
            yield from edited.with_values(Cause.OTHER_AXIS, each, _axes_beside(each.value, rank))


def transposed_operands(edited: EditedOperation) -> Edits:
    """Yields operands with two axes exchanged."""
    for number, operand in enumerate(edited.operation.operands):
        yield from edited.operand_place(number).edits(exchanged_axes(as_array(operand)))


def other_slices(edited: EditedOperation) -> Edits:
    """Yields other slices of an operand."""
    operation = edited.operation
    for key, name, value in named_arguments(operation):
        if name not in _PARTS or len(operation.operands) != 1:
            continue
        parts, shape = list(value) if isinstance(value, tuple) else [value], operation.operands[0].shape
        for place, axis in _sliced_axes(parts, len(shape)):
            for other in itertools.islice(_slices_beside(parts[place], int(shape[axis])), _MOST_ORDERS):
                now = [*parts[:place], other, *parts[place + 1 :]]
                description = f"with {_slice_text(other)} instead of {_slice_text(parts[place])}"
                changed = tuple(now) if isinstance(value, tuple) else other
                yield edited.edit(Cause.SHIFTED_ROWS, description, partial(with_argument, key, changed))


def other_orders(edited: EditedOperation) -> Edits:
    """Yields the values of a result in another order: by other reshapes, concatenations, splits or transpositions."""
    operation, result, operands = edited.operation, edited.result, edited.operation.operands
    if result is None:
        yield from _other_pieces(edited)
        return
    if len(operands) == 1 and np.prod(tuple(operands[0].shape)) == np.prod(tuple(result.shape)):
        yield from _other_shapes(edited, len(operands[0].shape), len(result.shape))
    if len(operands) > 1 and any(isinstance(each, list | tuple) and tensors_in(each) for each in operation.arguments):
        for order in itertools.islice(itertools.permutations(range(len(operands))), 1, _MOST_ORDERS):
            description = f"given its operands in the order {[each + 1 for each in order]}"
            yield edited.change_operands(Cause.OTHER_ORDER, description, partial(_take_in_order, order))
    array = as_array(result)
    orders = backwards(array), rolls(array), block_orders(array), exchanged_axes(array)
    yield from edited.result_place.edits(itertools.chain.from_iterable(orders))


def _other_shapes(edited: EditedOperation, before: int, after: int) -> Edits:
    for order in _orders(after):
        description = f"filled with its axes in the order {list(order)}"
        yield edited.edit(Cause.OTHER_ORDER, description, partial(_fill, order))
    for order in _orders(before):
        text = f"{{}} read with its axes in the order {list(order)}"
        read = Proposal(Cause.OTHER_ORDER, text, partial(_read_in_order, order), {"order": order})
        yield from edited.operand_place(0).edits([read])


def _other_pieces(edited: EditedOperation) -> Edits:
    """Yields several results in another order, or strided slices of the operand as the results."""
    operation = edited.operation
    count = len(operation.outputs)
    for order in itertools.islice(itertools.permutations(range(count)), 1, _MOST_ORDERS):
        description = f"with its results in the order {[each + 1 for each in order]}"
        yield edited.edit(Cause.OTHER_ORDER, description, partial(_results_in_order, order))
    for axis, size in enumerate(map(int, operation.operands[0].shape)) if len(operation.operands) == 1 else ():
        if size % count == 0 and size > count:
            description = f"with every {count}th value along axis {axis} together"
            yield edited.edit(Cause.OTHER_ORDER, description, partial(_every, axis, count))


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """Yields the orders of axes except the identity, with the batch first."""
    if 1 < rank <= _MOST_AXES:
        yield from ((0, *order) for order in itertools.islice(itertools.permutations(range(1, rank)), 1, None))


def _axes_beside(value: Any, rank: int) -> Iterator[Any]:
    """Yields other axes: one axis, as many axes, or all axes in another order."""
    if value is None or isinstance(value, int):
        yield from (axis for axis in range(rank) if value is None or axis != value % rank)
    elif isinstance(value, tuple | list):
        own = tuple(axis % rank for axis in value)
        if sorted(own) == list(range(rank)):
            orders = map(list, itertools.permutations(range(rank))) if rank <= _MOST_AXES else exchanged_pairs(own)
            yield from (order for order in orders if order != [*own])
        else:
            counts = [count for count in (len(own), len(own) - 1, len(own) + 1) if 1 < count < rank]
            yield from (
                list(axes) for count in counts for axes in itertools.combinations(range(rank), count) if axes != own
            )
            yield from range(rank)


def subscripts_beside(subscripts: str) -> Iterator[str]:
    """Yields the subscripts of an einsum with two letters exchanged, in one operand or at the same places in all."""
    given, arrow, result = subscripts.partition("->")
    parts = given.split(",")
    for number, part in enumerate(parts):
        for letters in exchanged_pairs(part):
            yield ",".join([*parts[:number], "".join(letters), *parts[number + 1 :]]) + arrow + result
    for everywhere in zip(*map(exchanged_pairs, parts), strict=True) if len({*map(len, parts)}) == 1 else ():
        yield ",".join(map("".join, everywhere)) + arrow + result


def exchanged_pairs(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yields values with two of them exchanged."""
    return (exchanged_pair(*pair, values) for pair in itertools.combinations(range(len(values)), 2))


def exchanged_pair(one: int, other: int, values: Sequence[Any]) -> list[Any]:
    """Returns values with those at two positions exchanged."""
    now = list(values)
    now[one], now[other] = now[other], now[one]
    return now


def _sliced_axes(parts: Sequence[Any], rank: int) -> Iterator[tuple[int, int]]:
    """Yields the index of each part of a slice that does not cover its axis, and the axis."""
    skipped = rank - sum(part is not None and part is not Ellipsis for part in parts)
    axis = 0
    for place, part in enumerate(parts):
        if isinstance(part, int | slice) and part != slice(None):
            yield place, axis
        axis += skipped if part is Ellipsis else part is not None


def _slices_beside(part: Any, size: int) -> Iterator[Any]:
    """Yields other slices with as many values of an axis, or other indices."""
    if isinstance(part, int):
        yield from (other for other in range(size) if other != part % size)
        return
    own = range(size)[part]
    for step in dict.fromkeys((own.step, 1, 2, -1)):
        for start in range(size) if step > 0 else reversed(range(size)):
            other = range(start, start + step * len(own), step)
            if other and other != own and 0 <= other[-1] < size:
                stop = other[-1] + step
                yield slice(start, None if stop < 0 else stop, step)


def _slice_text(part: Any) -> str:
    if not isinstance(part, slice):
        return repr(part)
    start, stop, step = ("" if each is None else str(each) for each in (part.start, part.stop, part.step))
    return f"{start}:{stop}" + (f":{step}" if step not in ("", "1") else "")


def _take_in_order(order: Sequence[int], operands: list[Any]) -> list[Any]:
    return [operands[each] for each in order]


def _results_in_order(order: Sequence[int], operation: Operation, arguments: Any, names: Any) -> Any:
    made = tensors_in(again(operation, arguments, names))
    return [made[each] for each in order]


def _fill(order: Sequence[int], operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns the values reshaped in another order of the result's axes."""
    import keras

    shape = tuple(operation.outputs[0].shape)
    (operand,) = tensors_in((arguments, dict(names)))
    turned = keras.ops.reshape(operand, [shape[each] for each in order])
    return keras.ops.transpose(turned, np.argsort(order).tolist())


def _read_in_order(order: Sequence[int], array: Array) -> Array:
    return array.transpose(order).reshape(array.shape)


def _every(axis: int, count: int, operation: Operation, arguments: Any, names: Any) -> Any:
    (operand,) = tensors_in((arguments, dict(names)))
    before = (slice(None),) * axis
    return [operand[(*before, slice(number, None, count))] for number in range(count)]
