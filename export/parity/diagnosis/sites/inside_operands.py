"""Edits of the operands of an operation inside a layer: exchanged, or replaced by other tensors or weights."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Operation, again, tensors_in
from keras_pe.export.model.watch.other_expressions import exchanged_pair
from keras_pe.export.parity.diagnosis.code_graph import Source
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inside_calls import Tape
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.operation_changes import with_leaf, with_operands
from keras_pe.export.parity.diagnosis.operation_edits import EditedOperation, fits, is_alike, value_positions
from keras_pe.export.parity.diagnosis.relations import is_number
from keras_pe.export.results import Array, Cause

MOST_SOURCES = 12  # tensors to try as an operand, the nearest earlier ones of equal shape
_MOST_BESIDE = 6  # such tensors of other shapes


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
    # The last call of a loop has more tensors, and in the first call, two of them may be the same.
    for each in {each.number: each for each in (edited.last_call, edited)}.values():
        for number, operand in enumerate(each.operation.operands):
            for source in _sources_like(tape, each.number, operand):
                yield each.replace_operand(source, number)
    if edited.result is not None and len(tape.consumers(edited.number)) > 1:
        for source in _sources_like(tape, edited.number, edited.result):
            yield edited.replace_result(source, Cause.OTHER_INPUT)
    yield from _other_variables(edited)


def exchanged_tensors(edited: EditedOperation, one: Source, other: Source, readers: Sequence[int]) -> Iterator[Edit]:
    """Yields the edit that exchanges two tensors of the call for some readers, in each iteration of a loop."""
    operations = edited.tape.operations
    distinct = _choose_iteration(edited.tape, readers)
    operands = {
        (number, place): source
        for number in distinct.values()
        for place, source in enumerate(map(edited.tape.source, operations[number].operands))
        if source in (one, other)
    }
    if len(set(operands.values())) < 2:
        return
    partners = {
        own: next(each for each, another in operands.items() if another != source) for own, source in operands.items()
    }

    def compute(fault: LayerFault) -> Array:
        tape, current = edited.tapes(fault.call), dict[int, Any]()
        numbers = {id(operation): number for number, operation in enumerate(tape.operations)}

        def change(operation: Operation, arguments: Any, names: Any) -> Any:
            now = tensors_in((arguments, dict(names)))
            for (number, place), (reader, operand) in partners.items():
                if operations[number].place == operation.place:
                    another = tape.operations[numbers[id(operation)] + reader - number].operands[operand]
                    now[place] = current.get(id(another), another)
            return with_operands(lambda _: now, operation, arguments, names)

        return tape.replay(dict.fromkeys(distinct, change), fault.index, current)

    texts = [edited.tape.name(source) for source in (one, other)]
    description = f"and the operations after it, with {' and '.join(texts)} exchanged"
    yield Edit(Cause.EXCHANGED_INPUTS, description, compute)


def _choose_iteration(tape: Tape, numbers: Sequence[int]) -> dict[CodePlace, int]:
    """Returns one of some operations for each place, all of them in the first iteration that has every place."""
    found = dict[CodePlace, dict[int, int]]()
    for number in numbers:
        place = tape.operations[number].place
        found.setdefault(place, {})[tape.at(place).index(number)] = number
    iteration = max(min(each) for each in found.values())
    return {place: each.get(iteration, min(each.values())) for place, each in found.items()}


def _other_variables(edited: EditedOperation) -> Edits:
    """Yields a weight replaced by another weight of the layer, or transposed."""
    import keras

    same = (edited.tape.operations[number] for number in edited.tape.at(edited.operation.place))
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
    """Returns earlier tensors of the call that can replace an operand, the nearest first.

    Tensors that the function around the operation has come before others, and variables before temporary results.
    Tensors with the shape and type of the operand come before tensors that broadcast with it.
    """
    others = [(each, tape.tensor(each)) for each in (*earlier_results(tape, number), *inputs_of(tape))]
    same = [source for source, each in others if each is not operand and is_alike(each, operand)]
    own = tape.operations[number].place
    same.sort(key=lambda each: (tape.reader_of(each, number) != own, not tape.is_variable(each, number)))
    beside = (
        source
        for source, each in others
        if not is_alike(each, operand) and (fits(each, operand) or fits(operand, each))
    )
    return [*itertools.islice(same, MOST_SOURCES), *itertools.islice(beside, _MOST_BESIDE)]


def earlier_results(tape: Tape, number: int) -> Iterator[Source]:
    """Yields the results before an operation, the nearest first."""
    return ((n, place) for n in reversed(range(number)) for place in range(len(tape.operations[n].outputs)))


def inputs_of(tape: Tape) -> Iterator[Source]:
    """Yields the inputs of the layer."""
    return ((-1, place) for place in range(len(tape.inputs)))
