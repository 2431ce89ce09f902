"""Chooses what is edited: the operations at fault, right operations before them, and tensors to exchange."""

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Operation
from keras_pe.export.parity.diagnosis.code_graph import Source, reach
from keras_pe.export.parity.diagnosis.edits import Edits, Site
from keras_pe.export.parity.diagnosis.inside_calls import Tape, Tapes
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.parity.diagnosis.operation_edits import is_alike
from keras_pe.export.parity.diagnosis.operation_walk import Suspects
from keras_pe.export.parity.diagnosis.sites.inside_operations import operations_at
from keras_pe.export.parity.diagnosis.sites.inside_statements import other_statements

_NUMBERED = re.compile(r"(.*?)(?:_(\d+))?(?::0)?", re.DOTALL)


class Candidates:
    """The operations of a call that are edited.

    Args:
        tape: The operations of the call.
        suspects: The operations that may be at fault.
        tapes: The operations of the layer's calls.
    """

    def __init__(self, tape: Tape, suspects: Suspects, tapes: Tapes) -> None:
        self._tape, self.suspects, self._tapes = tape, suspects, tapes

    @cached_property
    def _right_before(self) -> list[int]:
        return sorted(right_before(self._tape, self.suspects))

    @cached_property
    def places(self) -> list[CodePlace]:
        """The places of the operations that may be at fault."""
        several = [number for number in self._right_before if len(self._tape.consumers(number)) > 1]
        numbers = sorted({*self.suspected, *several})
        return list(dict.fromkeys(map(self._place, numbers)))

    @cached_property
    def site(self) -> Site:
        """The edits of the operations that may be at fault."""
        earlier = dict[CodePlace, CodePlace]()
        for number in self._right_before:
            earlier.setdefault(self._place(number), place_of_result(self._tape, self.suspects, number))
        exchanged = list(exchangeable(self._tape, self.suspects, self.origin))
        located = set(map(self._place, self.suspects.located))
        return operations_at(self.places, self._tapes, exchanged, earlier, located)

    @property
    def suspected(self) -> set[int]:
        """The operations that may be at fault."""
        return {*self.suspects.located, *self.suspects.unseen}

    @property
    def unproved(self) -> set[int]:
        """The operations that no tensor of the artifact proves right."""
        return {*self.suspected, *self._right_before}

    @property
    def involved(self) -> set[int]:
        """The wrong operations, and those that return their operands, since a statement may choose another operand."""
        wrong = {*self.suspects.located, *self.suspects.wrong}
        same = {each for number in wrong for each in self._tape.at(self._place(number))}
        return wrong | {number for each in same for number, _ in self._tape.sources(each) if number >= 0}

    def statements(self, fault: LayerFault, numbers: Collection[int] = (), *, is_larger: bool = False) -> Edits:
        """Yields the edits of the statements with the operations of some numbers; by default of those without any.

        They are the larger edits, or the others.
        """
        places = (place for number in numbers for place in self._tape.operations[number].places)
        lines = {(place.file, place.line) for place in places}
        return other_statements(self._tape, fault, lines, is_larger=is_larger)

    def unseen_before(self, number: int) -> set[int]:
        """Returns the operations without a tensor that an operand of an operation may follow from.

        The set is empty if no operand is the result of such an operation.
        """
        unseen = self._tape.before((number, 0)).intersection(self.suspects.unseen)
        return set() if unseen.isdisjoint(source for source, _ in self._tape.sources(number)) else unseen

    def enclosing(self) -> list[int]:
        """Returns the number of the operation that is certainly at fault, or of the two that enclose the fault."""
        located, unseen = list(self.suspects.located), list(self.suspects.unseen)
        places = {number: self.origin(number) for number in (*located, *unseen)}
        every = {(place.file, place.line): number for number, place in places.items()}
        if len(every) == 1 or (located and not unseen):
            return (located or unseen)[-1:]
        return [every[min(every)], every[max(every)]] if every else []

    def is_in_line(self, number: int) -> bool:
        """Whether the line of a located operation is at fault, whatever its change is.

        The artifact has the operands. The line of an operand is right if an operation of another line reads the operand
        as well, and is right. Another statement may compute a constant.
        """
        own = self._tape.operations[number]
        is_stated = any(self._tape.stating(own, each.key) != (own.place,) for each in own.constants)
        if self.origin(number) != own.place or is_stated or not own.operands:
            return False
        return all(self._is_right_elsewhere(number, source) for source in self._tape.sources(number))

    def _is_right_elsewhere(self, number: int, source: Source) -> bool:
        """Whether an operand is an input of the layer, or a line beside that of its reader proves it right."""
        own, maker = self._place(number), source[0]
        if maker < 0:
            return True
        if (self._place(maker).file, self._place(maker).line) == (own.file, own.line):
            return self.is_in_line(maker)
        readers = (each for each in self._tape.consumers(maker) if each in self.suspects.tensors)
        return any(self._place(each).line != own.line for each in readers)

    def origin(self, number: int) -> CodePlace:
        """Returns the place of an operation, or of the call of a user's own function that is right in another call."""
        right = self.suspects.tensors.keys() - {*self.suspects.unseen, *self.suspects.located}
        sound = {chain for each in right for chain in _call_chains(self._tape.operations[each])}
        chains = _call_chains(self._tape.operations[number])
        wrong = (own for own in chains if not any(each[0] == own[0] and each != own for each in sound))
        return next(wrong, chains[0])[0]

    def _place(self, number: int) -> CodePlace:
        return self._tape.operations[number].place


def right_before(tape: Tape, suspects: Suspects) -> Iterator[int]:
    """Yields operations before the wrong ones that may be at fault.

    Only wrong operations use their results. The results of constants and weights count if one wrong operation uses
    them, since no tensor proves them right. Neither does one prove the order of several parts of a tensor.
    """
    wrong = {*suspects.located, *suspects.unseen, *suspects.wrong}
    suspected = set(wrong)
    for number in reversed(range(len(tape.operations))):
        after, is_part = tape.consumers(number), _is_one_of_parts(tape, number)
        if number in wrong or not after or (tape.is_output(number) and not is_part):
            continue
        is_constant = not tape.depends_on_inputs(number)
        if is_part:
            is_suspected = not wrong.isdisjoint(reach(after, tape.consumers))
        else:
            is_only_wrong = wrong.issuperset(after) and not tape.is_read_later(number)
            is_suspected = not suspected.isdisjoint(after) if is_constant else is_only_wrong
        if is_suspected:
            suspected |= {number} if is_constant else set()
            yield number


def exchangeable(
    tape: Tape, suspects: Suspects, origin: Callable[[int], CodePlace]
) -> Iterator[tuple[Source, Source, list[int], tuple[CodePlace, ...]]]:
    """Yields pairs of tensors of equal shape that suspects read, with the readers and the places to report.

    The readers are all of them, or those of one line. The place is the call of a function whose operations read both
    several times. Without such a call, it is the place that reads them. It is the place of the first result if the
    artifact numbers the results in the other order, or if several lines read them. Results of one operation that one
    other line reads may be exchanged in either line.

    A single operation that reads both is skipped, since it has its operands exchanged. So is a pair that follows from
    a result which the artifact lacks: the exchange of exp(x) and exp(-x) is a sign of x.
    """
    numbers = sorted({*suspects.located, *suspects.unseen})
    places = [operation.place for operation in tape.operations]
    read = dict.fromkeys(source for number in numbers for source in tape.sources(number))
    known = [source for source in read if source[0] not in numbers or not tape.depends_on_inputs(source[0])]
    for one, other in itertools.combinations(sorted(known), 2):
        makers = {places[number] for number, _ in (one, other) if number >= 0}
        reading = (number for number in numbers if {one, other} & set(tape.sources(number)))
        readers = [number for number in reading if places[number] not in makers]
        by_line = dict[tuple[str, int], list[int]]()
        for number in readers:
            by_line.setdefault((places[number].file, places[number].line), []).append(number)
        # Two results of constants may fit by chance in several lines.
        is_constant = len(by_line) > 1 and {one[0], other[0]} <= set(numbers)
        if is_constant or not is_alike(*map(tape.tensor, (one, other))):
            continue
        if tape.before(one).intersection(tape.before(other), suspects.missing):
            continue
        tensors = [suspects.tensors.get(number, "") for number, _ in (one, other)]
        is_earlier = one[0] >= 0 and (_is_turned(*tensors) or len(by_line) > 1)
        for every in (readers, *by_line.values()) if len(by_line) > 1 else (readers,):
            if len(every) > 1:
                place = _call_given_both(tape, one, other, every) or origin(every[0])
                is_made_so = is_earlier and every is readers and place == places[every[0]]
                both = tape.changing(one[0]) if one[0] == other[0] >= 0 and every is readers else ()
                found = places[one[0]] if is_made_so else place
                yield one, other, every, both if len(both) > 1 else (found,)


def _call_given_both(tape: Tape, one: Source, other: Source, readers: Sequence[int]) -> CodePlace | None:
    """Returns the innermost call of a function that is given two tensors, if its operations read them several times."""
    if len(readers) < 3:
        return None
    chains = [tape.operations[number].callers for number in readers]
    made = {caller for number, _ in (one, other) if number >= 0 for caller in tape.operations[number].callers}
    return next((each for each in chains[0] if each not in made and all(each in chain for chain in chains)), None)


def place_of_result(tape: Tape, suspects: Suspects, number: int) -> CodePlace:
    """Returns the line that alone selects values of a result, if the artifact has a tensor with that result."""
    readers = tape.consumers(number)
    places = [tape.operations[each].place for each in readers]
    is_one = len({(each.file, each.line) for each in places}) == 1
    is_selected = (
        number in suspects.tensors
        and len(tape.operations[number].outputs) == 1
        and all(_selects(tape, each) for each in readers)
    )
    return places[0] if is_one and is_selected else tape.operations[number].place


def _is_one_of_parts(tape: Tape, number: int) -> bool:
    """Whether an operation has several results, or takes a part of a tensor in each iteration of a loop."""
    own = tape.operations[number]
    iterations = [each for each in tape.at(own.place) if tape.operations[each].places == own.places]
    sizes = [[as_array(each).size for each in tensors] for tensors in (own.outputs, own.operands)]
    is_smaller = max(sizes[0], default=0) < min(sizes[1], default=0)
    return len(own.outputs) > 1 or (len(iterations) > 1 and is_smaller and _selects(tape, number))


def _selects(tape: Tape, number: int) -> bool:
    """Whether an operation returns values of its only operand."""
    operands, results = tape.operations[number].operands, tape.operations[number].outputs
    return len(operands) == 1 and all(np.isin(each, as_array(operands[0])).all() for each in map(as_array, results))


def _is_turned(one: str, other: str) -> bool:
    """Whether the first of two names that differ in their final number has the larger number."""
    (base, number), (other_base, other_number) = (_NUMBERED.fullmatch(name).groups() for name in (one, other))  # type: ignore[union-attr]
    return bool(base == other_base and int(number or 0) > int(other_number or 0))


def _call_chains(operation: Operation) -> list[tuple[CodePlace, ...]]:
    """Returns the place of an operation and of each call around it, each with the calls around it."""
    return [operation.places[level:] for level in range(len(operation.places))]
