"""The operations of user code in one call of a layer: what leads to each of them, and the statements around it."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Argument, Key, Operation
from keras_pe.export.model.watch.stated_values import named_parameter, stating_places

Source = tuple[int, int]
"""The number of an operation and of one of its outputs; -1 and the number of an input of the layer."""

Node = TypeVar("Node", bound=int | Source)

_OF_LAYER = -1


class CodeGraph:
    """The operations of user code in one call of a layer.

    Attributes:
        operations: The operations in the order in which they returned.
        inputs: The tensors that the layer receives.
        outputs: The tensors that the layer returns.
        scope: The call of a user's function in which operations may change; None for all operations.
        read_later: The `id` of each tensor that operations after the last output read.
        given: The names of the parameters that have a number of the layer's caller.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        scope: CodePlace | None = None,
        read_later: Collection[int] = (),
        given: Collection[str] = (),
    ) -> None:
        self.operations, self.inputs, self.outputs, self.scope = operations, inputs, outputs, scope
        self.read_later, self.given = read_later, given
        self._made = {id(tensor): (_OF_LAYER, number) for number, tensor in enumerate(inputs)}
        for number, operation in enumerate(operations):
            for place, tensor in enumerate(operation.outputs):
                self._made.setdefault(id(tensor), (number, place))
        found = ([self.source(each) for each in operation.operands] for operation in operations)
        self._sources = [[each for each in sources if each is not None] for sources in found]
        self._consumers: list[list[int]] = [[] for _ in operations]
        self._varying = set[int]()  # the operations whose results depend on the inputs
        for number, sources in enumerate(self._sources):
            read = [source for source, _ in sources]
            if any(source == _OF_LAYER or source in self._varying for source in read):
                self._varying.add(number)
            for source in {each for each in read if 0 <= each < number}:
                self._consumers[source].append(number)

    def is_in_scope(self, operation: Operation) -> bool:
        """Whether an operation may change."""
        return self.scope is None or self.scope in operation.callers

    def at(self, place: CodePlace) -> list[int]:
        """Returns the numbers of the operations at a place that may change: one for each iteration of a loop."""
        return [n for n, each in enumerate(self.operations) if each.place == place and self.is_in_scope(each)]

    def calls_at(self, place: CodePlace) -> list[list[int]]:
        """Returns the numbers of the operations in each call at a place, which are several in a loop.

        An operation is a call of its own.
        """
        found: list[list[int]] = []
        for number, operation in enumerate(self.operations):
            if place not in operation.places:
                continue
            is_next = place != operation.place and found and found[-1][-1] == number - 1
            if is_next and self.operations[found[-1][0]].places != operation.places:
                found[-1].append(number)
            else:
                found.append([number])
        return found

    def stating(self, operation: Operation, key: Key, part: int | None = None) -> tuple[CodePlace, ...]:
        """Returns the places that may compute an argument, as `stating_places`, without those of other arguments.

        A change of such a place would change those arguments as well.
        """
        first, *others = stating_places(operation, key, part)
        return (first, *(each for each in others if {named for _, _, named in self._users[each]} <= {first}))

    def is_given(self, operation: Operation, key: Key) -> bool:
        """Whether the caller of the layer gives the number that an argument names."""
        return bool(self.given) and named_parameter(operation, key) in self.given

    def users(self, statement: CodePlace) -> list[tuple[CodePlace, Argument]]:
        """Returns the operations that take the value of a statement: the place of each, and the argument."""
        return [(place, argument) for place, argument, named in self._users[statement] if named == statement]

    @cached_property
    def _users(self) -> Mapping[CodePlace, list[tuple[CodePlace, Argument, CodePlace]]]:
        """The operations with an argument that each place may compute, and the place that the argument names."""
        found = defaultdict[CodePlace, list[tuple[CodePlace, Argument, CodePlace]]](list)
        for operation in {each.place: each for each in reversed(self.operations)}.values():
            for argument in operation.constants:
                parts = range(len(argument.value)) if isinstance(argument.value, tuple) else [None]
                for places in {stating_places(operation, argument.key, part) for part in parts}:
                    for place in places:
                        found[place].append((operation.place, argument, places[0]))
        return found

    def source(self, tensor: Any) -> Source | None:
        """Returns the source of a tensor; None for a constant."""
        return self._made.get(id(tensor))

    def sources(self, number: int) -> list[Source]:
        """Returns the sources of an operation's operands, without constants."""
        return self._sources[number]

    def consumers(self, number: int) -> list[int]:
        """Returns the numbers of the operations that use a result."""
        return self._consumers[number]

    def before(self, source: Source) -> set[int]:
        """Returns the numbers of the operations that a tensor follows from."""
        every = reach([source[0]], lambda number: [each for each, _ in self._sources[number]] if number >= 0 else [])
        return every - {_OF_LAYER}

    def inputs_around(self, number: int) -> Iterator[tuple[CodePlace, Source]]:
        """Yields the inputs of each call of a user's function, and of the line, that have the result of an operation.

        The place is that of the call or of the operation. Inputs of the operation itself are left out.
        """
        own = self.operations[number]
        for caller in own.callers:
            yield from ((caller, each) for each in self._inputs_of(number, partial(_is_within, caller)))
        yield from ((own.place, each) for each in self._inputs_of(number, _line) if each not in self._sources[number])

    def changing(self, number: int) -> tuple[CodePlace, ...]:
        """Returns the places where a change may change the results of an operation.

        They are the operation and the only line that reads its results. A function reads them where it is called. The
        statements that compute a table come after them.
        """
        own, readers = self.operations[number].place, [self.operations[each] for each in self.consumers(number)]
        read = [next((at for at in each.places if at.function == own.function), each.place) for each in readers]
        lines = {(at.file, at.line) for at in read}
        is_alone = len(lines) == 1 and (own.file, own.line) not in lines and not self.is_output(number)
        places = (own, read[0]) if is_alone and not self.is_read_later(number) else (own,)
        if not self.depends_on_inputs(number):
            places = tuple(dict.fromkeys((*places, *self._stating_tables(number))))
        return places

    def looping(self, number: int) -> set[CodePlace]:
        """Returns the place in a loop that makes all of several operands, since the loop decides their order."""
        made = [self.operations[source].place for source, _ in self._sources[number] if source >= 0]
        return set(made) if len(set(made)) == 1 < len(made) else set()

    def _stating_tables(self, number: int) -> Iterator[CodePlace]:
        """Yields the places that may compute the arrays among the constants of an operation."""
        for key, _, value in self.operations[number].constants:
            if isinstance(value, tuple | list | np.ndarray):
                yield from self.stating(self.operations[number], key)

    def left_out_call(self, old: Source | None, new: Source, readers: Sequence[int]) -> CodePlace | None:
        """Returns the call, or the line, that is left out if some operations read a tensor instead of its result.

        The tensor is an input of that call, and no other operation reads the result.
        """
        if old is None or old[0] == _OF_LAYER or self.is_read_later(old[0]):
            return None
        if not set(self.consumers(old[0])) <= set(readers):
            return None
        own = self.operations[old[0]].place if new in self._sources[old[0]] else None
        return next((call for call, given in self.inputs_around(old[0]) if given == new), own)

    def is_variable(self, source: Source, reader: int) -> bool:
        """Whether a tensor is the value of a variable in a function that leads to an operation, or of its parameter.

        Another line of that function reads the tensor.
        """
        number, callers = source[0], self.operations[reader].callers
        return number == _OF_LAYER or any(self._is_variable_in(callers[n:], number) for n in range(len(callers) + 1))

    def _is_variable_in(self, callers: Sequence[CodePlace], number: int) -> bool:
        lines = {self._line_in(callers, each) for each in self.consumers(number)} - {None}
        own = self._line_in(callers, number)
        return own is not None and bool(lines - {own})

    def _line_in(self, callers: Sequence[CodePlace], number: int) -> int | None:
        """Returns the line that computes a result in the function that some calls lead to; None in another function."""
        places = self.operations[number].places
        level = len(places) - len(callers) - 1
        return places[level].line if level >= 0 and places[level + 1 :] == tuple(callers) else None

    def reader_of(self, source: Source, number: int) -> CodePlace:
        """Returns the place that could pass a tensor to an operation: the operation, or a call of a function around it.

        A function whose operations neither make nor read the tensor lacks the tensor.
        """
        own, *callers = self.operations[number].places
        for caller in callers:
            if source in self._known_inside[caller]:
                return own
            own = caller
        return own

    @cached_property
    def _known_inside(self) -> dict[CodePlace, set[Source]]:
        """The tensors that the operations in each call of a user's function make or read."""
        known = defaultdict[CodePlace, set[Source]](set)
        for number, operation in enumerate(self.operations):
            made = {(number, place) for place in range(len(operation.outputs))}
            for caller in operation.callers:
                known[caller] |= made.union(self._sources[number])
        return known

    def _inputs_of(self, number: int, part: Callable[[Operation], Any]) -> list[Source]:
        """Returns what a part of the code reads for an operation's result; nothing if the part reads the result, too.

        Args:
            number: The number of the operation.
            part: Returns an equal value for all operations of one part.
        """
        own = part(self.operations[number])
        if any(part(self.operations[each]) == own for each in self._consumers[number]):
            return []

        def is_inside(source: Source) -> bool:
            return source[0] != _OF_LAYER and bool(part(self.operations[source[0]]) == own)

        every = reach(self._sources[number], lambda each: self._sources[each[0]] if is_inside(each) else [])
        return sorted(each for each in every if not is_inside(each))

    def is_read_later(self, number: int) -> bool:
        """Whether an operation after the last output reads a result."""
        return any(id(each) in self.read_later for each in self.operations[number].outputs)

    def is_output(self, number: int) -> bool:
        """Whether the layer returns a result of an operation."""
        return any((self.source(each) or (_OF_LAYER,))[0] == number for each in self.outputs)

    def depends_on_inputs(self, number: int) -> bool:
        """Whether a result depends on the layer's inputs, and not only on constants and weights."""
        return number in self._varying

    def tensor(self, source: Source) -> Any:
        """Returns the tensor of a source."""
        number, place = source
        return self.inputs[place] if number == _OF_LAYER else self.operations[number].outputs[place]

    def name(self, source: Source) -> str:
        """Returns the name of a tensor of the call in a sentence."""
        number, place = source
        if number == _OF_LAYER:
            return f"input {place + 1} of the layer"
        operation = self.operations[number]
        which = f"result {place + 1} of " if len(operation.outputs) > 1 else ""
        return f"{which}`{operation.place.text}`"


def _is_within(caller: CodePlace, operation: Operation) -> bool:
    return caller in operation.callers


def _line(operation: Operation) -> tuple[str, int, tuple[CodePlace, ...]]:
    """Returns the line of an operation, in the calls around it."""
    return operation.place.file, operation.place.line, operation.callers


def reach(start: Iterable[Node], step: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """Returns the nodes that steps lead to from some nodes, and these nodes."""
    found, todo = set[Node](), [*start]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += step(node)
    return found
