"""Edits of several operations in a line inside a layer: in another direction, or in another division into parts."""

from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Operation, tensors_in
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.operation_changes import with_operands
from keras_pe.export.parity.diagnosis.operation_edits import EditedOperation
from keras_pe.export.parity.diagnosis.sites.inside_orders import PARTS
from keras_pe.export.results import Array, Cause


def other_directions(edited: EditedOperation) -> Edits:
    """Yields the operation along an axis in the other direction, alone or after the one before it in the same line.

    A causal shift is two operations: a padding of a slice.
    """
    tape, last = edited.tape, edited.number
    before = [n for n, _ in tape.sources(last) if n >= 0 and tape.consumers(n) == [last]]
    for first in (last, *(n for n in before if tape.operations[n].place.line == edited.operation.place.line)):
        operands, own = tape.operations[first].operands, edited.operation
        if _has_array(own) or _has_array(tape.operations[first]):
            continue  # the array may be reversed instead
        if len(operands) == len(own.operands) == 1 and len(operands[0].shape) == len(own.outputs[0].shape):
            for axis in (axis for axis, size in enumerate(operands[0].shape) if axis and size > 1):
                description = f"in the other direction along axis {axis}"
                changes = tape.operations[first].place, own.place, axis
                yield Edit(
                    Cause.OTHER_DIRECTION, description, partial(_compute_turned, edited, *changes), places=(own.place,)
                )


def _has_array(operation: Operation) -> bool:
    return any(np.size(each.value) > 1 for each in operation.constants if isinstance(each.value, np.ndarray))


def _compute_turned(edited: EditedOperation, first: CodePlace, last: CodePlace, axis: int, fault: LayerFault) -> Array:
    import keras

    flip = partial(keras.ops.flip, axis=axis)

    def change(operation: Operation, arguments: Any, names: Any) -> Any:
        given = (lambda own: [flip(own[0])]) if operation.place == first else (lambda own: own)
        made = with_operands(given, operation, arguments, names)
        return flip(made) if operation.place == last else made

    return edited.replay(dict.fromkeys((first, last), change), fault)


def other_parts(edited: EditedOperation) -> Edits:
    """Yields the slices of a tensor in one line as blocks, or as interleaved parts, as the halves of a rotation."""
    together, own = _slices_beside(edited), edited.operation
    count = len(together)
    if count < 2 or together[0] is not own:
        return
    for axis, size in enumerate(map(int, own.operands[0].shape)):
        if size % count:
            continue
        blocks = [slice(start, start + size // count) for start in range(0, size, size // count)]
        strides = [slice(start, None, count) for start in range(count)]
        for kind, parts in (("in blocks", blocks), ("interleaved", strides)):
            indices = [(*[slice(None)] * axis, part) for part in parts]
            changes = {each.place: partial(_take, index) for each, index in zip(together, indices, strict=True)}
            description = f"with the {count} parts in this line {kind} along axis {axis}"
            yield Edit(Cause.OTHER_ORDER, description, partial(edited.replay, changes), places=(own.place,))


def _slices_beside(edited: EditedOperation) -> list[Operation]:
    """Returns the operations that return slices of the same tensor in the same line."""

    def key(operation: Operation) -> Any:
        return [id(each) for each in operation.operands], operation.place.line, operation.callers

    own = edited.operation
    same = [each for each in edited.tape.operations if key(each) == key(own)]
    return [each for each in same if len(each.operands) == 1 and any(part.name in PARTS for part in each.constants)]


def _take(index: Any, operation: Operation, arguments: Any, names: Any) -> Any:
    return tensors_in((arguments, dict(names)))[0][index]
