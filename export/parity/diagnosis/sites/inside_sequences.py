"""Edits that exchange two successive steps inside a layer: operations, or calls of a user's function."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inside_calls import Tape
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.parity.diagnosis.operation_edits import EditedOperation, fits
from keras_pe.export.results import Array, Cause


@dataclass(frozen=True)
class _Step:
    """An operation, or a call of a user's function, with one result.

    Attributes:
        place: The place of the operation or of the call.
        result: The position, among its operations, of the one that returns the result.
    """

    place: CodePlace
    result: int


def other_sequences_in_line(edited: EditedOperation) -> Edits:
    """Yields the edits of `other_sequences` within a line."""
    return other_sequences(edited, is_in_line=True)


def other_sequences(edited: EditedOperation, *, is_in_line: bool = False) -> Edits:
    """Yields each step that ends with an operation of the same place after the next step instead of before it.

    Each step has its other operands unchanged. The steps are in one line, or in two lines.
    """
    tape, seen = edited.tape, set[tuple[CodePlace, CodePlace, int, int]]()
    if edited.result is None:
        return
    for number in tape.at(edited.operation.place):
        readers = tape.consumers(number)
        for first, call in _steps_with(tape, number) if readers and not tape.is_output(number) else ():
            for second, after in _steps_around(tape, readers[0]):
                is_same = (first.place.file, first.place.line) == (second.place.file, second.place.line)
                if is_same is not is_in_line or not set(readers) <= set(after) or not set(call).isdisjoint(after):
                    continue
                for operand in _operands_like(tape, call, tape.operations[number].outputs[0]):
                    key = first.place, second.place, *operand
                    if key not in seen:
                        seen.add(key)
                        compute = partial(_compute_second_first, edited, first, second, operand)
                        description = f"after `{second.place.text}` instead of before it"
                        yield Edit(Cause.OTHER_ORDER, description, compute, places=(first.place,))


def _steps_with(tape: Tape, number: int) -> Iterator[tuple[_Step, list[int]]]:
    """Yields the steps that return the result of an operation, each with the numbers of its operations."""
    own = tape.operations[number]
    for place in own.places:
        call = next(each for each in tape.calls_at(place) if number in each)
        read = [each for each in call if tape.is_output(each) or not set(tape.consumers(each)) <= set(call)]
        if read == [number]:
            yield _Step(place, call.index(number)), call


def _steps_around(tape: Tape, number: int) -> Iterator[tuple[_Step, list[int]]]:
    """Yields the steps with one result that an operation is part of, each with the numbers of its operations."""
    for place in tape.operations[number].places:
        call = next(each for each in tape.calls_at(place) if number in each)
        for step, _ in _steps_with(tape, call[-1]):
            if step.place == place:
                yield step, call


def _operands_like(tape: Tape, call: Sequence[int], result: Any) -> Iterator[tuple[int, int]]:
    """Yields the operands of a step that broadcast with a result: the position of the operation, and of the operand."""
    seen = set[int]()
    for position, number in enumerate(call):
        for place, operand in enumerate(tape.operations[number].operands):
            source = tape.source(operand)
            is_given = source is not None and source[0] not in call and id(operand) not in seen
            if is_given and fits(operand, result):
                seen.add(id(operand))
                yield position, place


def _compute_second_first(
    edited: EditedOperation, first: _Step, second: _Step, operand: tuple[int, int], fault: LayerFault
) -> Array:
    """Returns the layer's output with two steps in the other order, in each iteration of a loop."""
    tape, now = edited.tapes(fault.call), dict[int, Any]()
    pairs = list(zip(*(map(tape.calls_at, (first.place, second.place))), strict=True))
    inside = {each for pair in pairs for call in pair for each in call}
    ends = {after[-1]: (before, after) for before, after in pairs}

    def run(call: Sequence[int], given: Any, other: Any) -> dict[int, Any]:
        """Returns the results of a step that is given another tensor."""
        own = {**now, id(given): other}
        for each in call:
            tape.replay_operation(tape.operations[each], {}, own)
        return own

    for position, operation in enumerate(tape.operations):
        if position in ends:
            before, after = ends[position]
            given = tape.operations[before[operand[0]]].operands[operand[1]]
            between, last = (
                tape.operations[call[step.result]].outputs[0] for call, step in ((before, first), (after, second))
            )
            early = run(after, between, now.get(id(given), given))[id(last)]
            now[id(last)] = run(before, given, early)[id(between)]
        elif position not in inside:
            tape.replay_operation(operation, {}, now)
    returned = tape.outputs[fault.index]
    return as_array(now.get(id(returned), returned))
