"""Edits of axes, slices and orders of values of an operation inside a layer."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.operations import Operation, again, tensors_in
from keras_pe.export.model.watch.other_expressions import exchanged_pairs
from keras_pe.export.parity.diagnosis.edits import Edits, Proposal, backwards, block_orders, exchanged_axes, rolls
from keras_pe.export.parity.diagnosis.layer_call import as_array
from keras_pe.export.parity.diagnosis.operation_changes import constantly
from keras_pe.export.parity.diagnosis.operation_edits import AXES, EditedOperation
from keras_pe.export.results import Array, Cause

PARTS = frozenset({"slice_spec", "idx", "key", "item", "index"})
_MOST_AXES = 5  # largest rank to permute, in 120 orders
_MOST_ORDERS = 24


def other_operation_axes(edited: EditedOperation) -> Edits:
    """Yields the operation over other axes."""
    operation = edited.operation
    rank = max((len(each.shape) for each in (*operation.operands, *operation.outputs)), default=0)
    for each in edited.arguments:
        if each.name in AXES and rank:
            yield from edited.with_values(Cause.OTHER_AXIS, each, _axes_beside(each.value, rank))
    if edited.result is not None:
        yield from _moved_ones(edited, tuple(edited.result.shape))


def _moved_ones(edited: EditedOperation, shape: tuple[int, ...]) -> Edits:
    """Yields the result with a new axis of size one at another place, as after another index or `keepdims`."""
    if any(tuple(each.shape) == shape for each in edited.operation.operands):
        return
    for axis, other in itertools.permutations(range(len(shape)), 2):
        if shape[axis] == 1 and shape[other] > 1:
            change = partial(_move_axis, axis, other)
            yield edited.edit(Cause.OTHER_AXIS, f"with axis {axis} of its result, of size 1, as axis {other}", change)


def _move_axis(axis: int, other: int, operation: Operation, arguments: Any, names: Any) -> Any:
    import keras

    return keras.ops.moveaxis(again(operation, arguments, names), axis, other)


def other_slices(edited: EditedOperation) -> Edits:
    """Yields other slices of an operand."""
    operation = edited.operation
    for argument in operation.constants:
        if argument.name not in PARTS or len(operation.operands) != 1:
            continue
        parts, shape = _parts_of(argument.value), operation.operands[0].shape
        for place, axis in _sliced_axes(parts, len(shape)):
            if not edited.takes(argument.key, place if isinstance(argument.value, tuple) else None):
                continue
            size = int(shape[axis])
            others = itertools.islice(_slices_beside(parts[place], size), _MOST_ORDERS)
            moves: list[Callable[[Any], Any]] = [partial(_moved_slice, size, shift) for shift in (1, -1, None)]
            moves.append(partial(_reverse_part, [_parts_of(each)[place] for each in edited.values_of(argument)]))
            changes = (partial(_with_part, place, change) for change in (*moves, *map(constantly, others)))
            for change, own, other in edited.changed_values(argument, changes):
                one, now = (_slice_text(_parts_of(each)[place]) for each in (own, other))
                description = f"with {now} instead of {one}"
                part = place if isinstance(argument.value, tuple) else None
                yield edited.with_change(Cause.SHIFTED_ROWS, description, argument.key, change, part)


def other_orders(edited: EditedOperation) -> Edits:
    """Yields the values of a result in another order: by other reshapes, concatenations or splits."""
    operation, result, operands = edited.operation, edited.result, edited.operation.operands
    if result is None:
        yield from _other_pieces(edited)
        return
    if len(operands) > 1 and any(tensors_in(each.value) for each in operation.constants):
        for order in itertools.islice(itertools.permutations(range(len(operands))), 1, _MOST_ORDERS):
            description = f"given its operands in the order {[each + 1 for each in order]}"
            yield edited.change_operands(Cause.OTHER_ORDER, description, partial(_take_in_order, order))


def rearrangements(edited: EditedOperation) -> Edits:
    """Yields an additional rearrangement of the result, or of an operand."""
    result, operands = edited.result, edited.operation.operands
    if result is not None and len(operands) == 1 and np.prod(operands[0].shape) == np.prod(result.shape):
        yield from _other_shapes(edited, len(operands[0].shape), len(result.shape))
    if edited.result is not None:
        array = as_array(edited.result)
        orders = backwards(array), rolls(array), block_orders(array), exchanged_axes(array)
        yield from edited.result_place.edits(itertools.chain.from_iterable(orders))
    for number, operand in enumerate(edited.operation.operands):
        yield from edited.operand_place(number).edits(exchanged_axes(as_array(operand)))


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
    orders = itertools.chain(exchanged_pairs(range(count)), itertools.permutations(range(count)))
    for order in itertools.islice(orders, _MOST_ORDERS):
        description = f"with its results in the order {[each + 1 for each in order]}"
        edit = edited.edit(Cause.OTHER_ORDER, description, partial(_results_in_order, order))
        yield replace(edit, places=edited.tape.changing(edited.number))
    for axis, size in enumerate(map(int, operation.operands[0].shape)) if len(operation.operands) == 1 else ():
        if size % count == 0 and size > count:
            description = f"with every {count}th value along axis {axis} together"
            yield edited.edit(Cause.OTHER_ORDER, description, partial(_every, axis, count))


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """Yields the orders of axes except the identity, with the batch first."""
    if 1 < rank <= _MOST_AXES:
        yield from ((0, *order) for order in itertools.islice(itertools.permutations(range(1, rank)), 1, None))


def _axes_beside(value: Any, rank: int) -> Iterator[Any]:
    """Yields other axes: one axis, two axes, as many axes, or all axes in another order."""
    if value is None or isinstance(value, int):
        yield from (axis for axis in range(rank) if value is None or axis != value % rank)
        yield from itertools.islice(itertools.combinations(range(rank), 2), _MOST_ORDERS if value is not None else 0)
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
    """Yields the subscripts of an einsum with two letters exchanged in an operand, in all, or in the result."""
    given, arrow, result = subscripts.partition("->")
    parts = given.split(",")
    for number, part in enumerate(parts):
        for letters in exchanged_pairs(part):
            yield ",".join([*parts[:number], "".join(letters), *parts[number + 1 :]]) + arrow + result
    yield from (f"{given}{arrow}{''.join(letters)}" for letters in exchanged_pairs(result))
    for everywhere in zip(*map(exchanged_pairs, parts), strict=True) if len({*map(len, parts)}) == 1 else ():
        yield ",".join(map("".join, everywhere)) + arrow + result


def _sliced_axes(parts: Sequence[Any], rank: int) -> Iterator[tuple[int, int]]:
    """Yields the index of each part of a slice that does not cover its axis, and the axis."""
    skipped = rank - sum(part is not None and part is not Ellipsis for part in parts)
    axis = 0
    for place, part in enumerate(parts):
        if isinstance(part, int | slice) and part != slice(None):
            yield place, axis
        axis += skipped if part is Ellipsis else part is not None


def _parts_of(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple) else [index]


def _with_part(place: int, change: Callable[[Any], Any], index: Any) -> Any:
    """Returns an index with one of its parts changed."""
    parts = _parts_of(index)
    parts[place] = change(parts[place])
    return tuple(parts) if isinstance(index, tuple) else parts[0]


def _moved_slice(size: int, shift: int | None, part: Any) -> Any:
    """Returns a part of an index moved along an axis, or the part as far from the other end if `shift` is None."""
    if isinstance(part, int):
        return size - 1 - part % size if shift is None else part + shift
    own = range(size)[part]
    if not own:
        return part
    first = size - 1 - own[-1] if shift is None else own[0] + shift
    last = first + own[-1] - own[0]
    return slice(first, last + 1, own.step) if own.step > 0 and first >= 0 and last < size else part


def _reverse_part(parts: Sequence[Any], part: Any) -> Any:
    """Returns the part that a loop has at the same place of the reverse order."""
    distinct = list({repr(each): each for each in parts}.values())
    return distinct[-1 - distinct.index(part)]


def _slices_beside(part: Any, size: int) -> Iterator[Any]:
    """Yields slices with as many values of an axis, or indices. A loop may have the first index in all iterations."""
    if isinstance(part, int):
        yield from range(size)
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
