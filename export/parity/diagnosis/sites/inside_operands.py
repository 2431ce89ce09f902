"""Edits of the operands of an operation inside a layer: exchanged, or replaced by other tensors or weights."""

import itertools
from functools import partial
from typing import Any

from keras_pe.export.model.watch.operations import Operation
from keras_pe.export.parity.diagnosis.edits import Edits
from keras_pe.export.parity.diagnosis.inside_calls import Source, Tape, again
from keras_pe.export.parity.diagnosis.operation_edits import EditedOperation, is_alike, value_positions, with_leaf
from keras_pe.export.parity.diagnosis.relations import is_number
from keras_pe.export.parity.diagnosis.sites.inside_orders import exchanged_pair
from keras_pe.export.results import Cause

_MOST_SOURCES = 12  # tensors to try as an operand, the nearest earlier ones


def other_operands(edited: EditedOperation) -> Edits:
    """Yields exchanged operands, and an operand or a result of several readers replaced by another tensor or weight."""
    operation, tape = edited.operation, edited.tape
    for one, other in itertools.combinations(range(len(operation.operands)), 2):
        description = f"given its operands {one + 1} and {other + 1} exchanged"
        yield edited.change_operands(Cause.EXCHANGED_INPUTS, description, partial(exchanged_pair, one, other))
    values = value_positions(operation)
    for one, other in itertools.combinations(values, 2):
        if any(is_number(operation.arguments[each]) for each in (one, other)):
            description = f"given its arguments {one + 1} and {other + 1} exchanged"
            yield edited.edit(Cause.EXCHANGED_INPUTS, description, partial(_exchanged_arguments, one, other))
    # In the first call of a loop, two tensors may be the same.
    for each in {each.number: each for each in (edited, edited.last_call)}.values():
        for number, operand in enumerate(each.operation.operands):
            for source in _sources_like(tape, each.number, operand):
                yield each.replace_operand(source, number)
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


def _exchanged_arguments(one: int, other: int, operation: Operation, arguments: Any, names: Any) -> Any:
    return again(operation, exchanged_pair(one, other, arguments), names)


def _sources_like(tape: Tape, number: int, operand: Any) -> list[Source]:
    """Returns earlier tensors of the call with the shape and type of an operand, the nearest first."""
    results = [(n, place) for n in reversed(range(number)) for place in range(len(tape.operations[n].outputs))]
    known = [*results, *((-1, place) for place in range(len(tape.inputs)))]
    others = ((source, tape.tensor(source)) for source in known)
    same = (source for source, each in others if each is not operand and is_alike(each, operand))
    return list(itertools.islice(same, _MOST_SOURCES))
