"""Edits of one operation inside a layer: other operands, arguments or results, for the call of any case."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Argument, Key, Operation, again, is_plain_tensor, tensors_in
from keras_pe.export.parity.diagnosis.code_graph import Source
from keras_pe.export.parity.diagnosis.edits import Edit, NumericEdit, Place
from keras_pe.export.parity.diagnosis.inside_calls import Change, Tape, Tapes
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.operation_changes import (
    constantly,
    on_tensor,
    put,
    with_argument,
    with_leaf,
    with_operands,
)
from keras_pe.export.parity.diagnosis.relations import is_number, plain
from keras_pe.export.results import Array, Cause, OtherValue

NamedFunction = tuple[str, Callable[[Any], Any]]
"""A function of one tensor with its name."""

AXES = frozenset({"axis", "axes", "dim", "dims", "axis1", "axis2", "source", "destination", "perm", "reduction_axes"})
"""Names of arguments that are axes."""

_OPTIONS = frozenset(
    {"epsilon", "k", "num_classes", "negative_slope", "alpha", "shift", "decimals", "repeats", "indices_or_sections"}
)


@dataclass(frozen=True)
class EditedOperation:
    """An operation inside a layer that is edited.

    Attributes:
        layer: The layer.
        tapes: The operations of a call, for any case.
        tape: The operations of the first case.
        number: The number of the operation in that tape. An edit changes every operation at the same place in the code.
        constants: The artifact's small constants.
        is_located: Whether the artifact has a tensor with the operation's result, and other values in it.
        elsewhere: Whether the edited arguments are those that other statements compute, such as a constant of a module.
    """

    layer: Any
    tapes: Tapes
    tape: Tape
    number: int
    constants: Sequence[Array] = ()
    is_located: bool = False
    elsewhere: bool = False

    @property
    def operation(self) -> Operation:
        """The operation in the first case."""
        return self.tape.operations[self.number]

    @property
    def result(self) -> Any | None:
        """The tensor that the operation returns in the first case; None if it returns several."""
        outputs = self.operation.outputs
        return outputs[0] if len(outputs) == 1 else None

    @property
    def last_call(self) -> Self:
        """The last operation at the same place, which differs from this one in a loop."""
        return replace(self, number=self.tape.at(self.operation.place)[-1])

    def edit(self, cause: Cause, description: str, change: Change) -> Edit:
        """Returns the edit that replaces the operation."""
        place = self.operation.place
        return Edit(cause, description, partial(self.replay, {place: change}), places=(place,))

    def change_operands(self, cause: Cause, description: str, change: Callable[[list[Any]], Sequence[Any]]) -> Edit:
        """Returns the edit that changes the operands of the operation, which another statement or a loop may list."""
        lists = (each.key for each in self.operation.constants if tensors_in(each.value))
        places = next((self.tape.stating(self.operation, key)[:1] for key in lists), (self.operation.place,))
        places = (*places, *self.tape.looping(self.number))
        return replace(self.edit(cause, description, partial(with_operands, change)), places=places)

    @property
    def result_place(self) -> Place:
        """The place of the result."""

        def change(function: Callable[[Array], Array], operation: Operation, arguments: Any, names: Any) -> Any:
            return on_tensor(function, again(operation, arguments, names))

        own, looping = self.operation.place, self.tape.looping(self.number)
        places = (own, *looping) if self.is_located else (*self.tape.changing(self.number), *looping)
        return self._place("with", "its result", change, places)

    def operand_place(self, number: int) -> Place:
        """Returns the place of an operand."""

        def change(function: Callable[[Array], Array], *operation: Any) -> Any:
            return with_operands(lambda own: put(own, number, on_tensor(function, own[number])), *operation)

        own, (maker, _) = self.operation.place, self.tape.source(self.operation.operands[number]) or (-1, 0)
        made = self.tape.changing(maker) if maker >= 0 else ()
        return self._place("given", f"its operand {number + 1}", change, made if len(made) > 1 else (own,))

    def _place(self, how: str, name: str, change: Callable[..., Any], places: tuple[CodePlace, ...]) -> Place:
        """Returns the place of an array, in which `change` computes the result after a function of the array."""
        own = self.operation.place
        return Place(how, name, lambda f, fault: self.replay({own: partial(change, f)}, fault), code=places)

    @property
    def arguments(self) -> list[Argument]:
        """The arguments without tensors that are edited."""
        return [each for each in self.operation.constants if self.takes(each.key)]

    def takes(self, key: Key, part: int | None = None) -> bool:
        """Whether an argument, or a part of an index, is edited.

        Another statement is at fault only if it computes the argument, and all operations that take it change together.
        The code around the layer is at fault for a number that it gives.
        """
        if self.tape.is_given(self.operation, key):
            return False
        places = self.tape.stating(self.operation, key, part)
        own = repr(next(each.value for each in self.operation.constants if each.key == key))
        users = {user for user, each in self.tape.users(places[0]) if part is not None or repr(each.value) == own}
        if self.elsewhere:
            return places != (self.operation.place,) and (part is None or len(users) == 1)
        return places == (self.operation.place,) or len(users) > 1

    def with_values(self, cause: Cause, argument: Argument, others: Iterable[Any]) -> Iterator[Edit]:
        """Yields the edit with each of some values of an argument."""
        yield from self.with_changes(cause, argument, map(constantly, others))

    def with_changes(self, cause: Cause, argument: Argument, changes: Iterable[Callable[[Any], Any]]) -> Iterator[Edit]:
        """Yields the edit with each of some functions of an argument, whose value may change in a loop."""
        name = argument.name
        for change, value, other in self.changed_values(argument, changes):
            is_array = isinstance(value, np.ndarray)
            description = f"with other values of {name}" if is_array else f"with {name}={other!r} instead of {value!r}"
            edit = self.with_change(cause, description, argument.key, change)
            yield replace(edit, parameters=(OtherValue(name, plain(value), plain(other)),))

    def with_change(
        self, cause: Cause, description: str, key: Key, change: Callable[[Any], Any], part: int | None = None
    ) -> Edit:
        """Returns the edit with a function of an argument, or of an index that has one other part."""
        compute = partial(self.replay, self._changes(key, change))
        return Edit(cause, description, compute, places=self._stating(key, part))

    def _changes(self, key: Key, change: Callable[[Any], Any]) -> dict[CodePlace, Change]:
        """Returns the changes of an argument, in all operations that take the same value from the same statement."""
        found: dict[CodePlace, Change] = {self.operation.place: partial(with_argument, key, change)}
        if self.elsewhere:
            own = repr(next(each.value for each in self.operation.constants if each.key == key))
            for user, argument in self.tape.users(self.tape.stating(self.operation, key)[0]):
                if repr(argument.value) == own:
                    found.setdefault(user, partial(with_argument, argument.key, change))
        return found

    def _stating(self, key: Key, part: int | None = None) -> tuple[CodePlace, ...]:
        """Returns the places of what is edited: the operation, or the statements that compute its argument."""
        return self.tape.stating(self.operation, key, part) if self.elsewhere else (self.operation.place,)

    def changed_values(
        self, argument: Argument, changes: Iterable[Callable[[Any], Any]]
    ) -> Iterator[tuple[Callable[[Any], Any], Any, Any]]:
        """Yields distinct functions of an argument, each with the first value that changes, and the other value."""
        own = self.values_of(argument)
        seen = {repr(own)}
        for change in changes:
            others = [change(value) for value in own]
            if repr(others) not in seen:
                seen.add(repr(others))
                yield change, *next(pair for pair in zip(own, others, strict=True) if repr(pair[0]) != repr(pair[1]))

    def values_of(self, argument: Argument) -> list[Any]:
        """Returns the values of an argument at the place of the operation, without tensors; one for each call."""
        same = (self.tape.operations[number] for number in self.tape.at(self.operation.place))
        named = (dict[Key, Any]([*enumerate(each.arguments), *each.keywords.items()]) for each in same)
        values = (each.get(argument.key) for each in named)
        return [value for value in values if value is not None and not is_plain_tensor(value)] or [argument.value]

    def with_numbers(self, cause: Cause, argument: Argument) -> Iterator[NumericEdit]:
        """Yields the edit with another number as an argument, which is fitted.

        A factor and a summand are fitted instead if the number changes in a loop.
        """
        key, name, value = argument
        changes: dict[str, tuple[float, Callable[[float, float], float]]] = {name: (float(value), lambda _, now: now)}
        if len(set(self.values_of(argument))) > 1:
            changes = {f"factor of {name}": (1.0, operator.mul), f"summand of {name}": (0.0, operator.add)}

        def compute(known: str, fault: LayerFault, numbers: Mapping[str, float]) -> Array:
            _, function = changes[known]
            return self.replay(self._changes(key, lambda own: function(own, numbers[known])), fault)

        for known, (start, _) in changes.items():
            yield NumericEdit({known: start}, partial(compute, known), lambda _: cause, places=self._stating(key))

    def replace_operand(self, source: Source, operand: int) -> Edit:
        """Returns the edit that replaces an operand by another tensor of the call.

        It is the edit that leaves out the call which made the operand, if it has the same effect.
        """

        def change(tensor: Any, *operation: Any) -> Any:
            return with_operands(lambda own: put(own, operand, tensor), *operation)

        name, old = self.tape.name(source), self.tape.source(self.operation.operands[operand])
        call = self.tape.left_out_call(old, source, [self.number])
        if call is not None:
            edit = self._with_tensor(source, Cause.OPERATION_LEFT_OUT, f"replaced by {name}", change)
            return replace(edit, places=(call,))
        edit = self._with_tensor(source, Cause.OTHER_INPUT, f"given {name} as its operand {operand + 1}", change)
        return replace(edit, places=(self.tape.reader_of(source, self.number),))

    def replace_result(
        self, source: Source, cause: Cause, place: CodePlace | None = None, through: NamedFunction | None = None
    ) -> Edit:
        """Returns the edit that replaces the result by an earlier tensor of the call, or by a function of it.

        Args:
            source: The tensor.
            cause: The cause to report.
            place: The place to report; by default, that of the operation.
            through: The name of a function of one tensor, and the function.
        """
        name, function = through or ("", lambda tensor: tensor)
        description = f"replaced by {name and f'{name} of '}{self.tape.name(source)}"
        edit = self._with_tensor(source, cause, description, lambda tensor, *_: function(tensor))
        return edit if place is None else replace(edit, places=(place,))

    def _with_tensor(self, source: Source, cause: Cause, description: str, change: Callable[..., Any]) -> Edit:
        """Returns the edit that computes the result from an earlier tensor and the operation.

        In a loop, a tensor of the loop is that of the same iteration.
        """
        place, back = self.operation.place, self.number - source[0]
        maker = None if source[0] < 0 else self.tape.operations[source[0]].place
        is_one = maker is not None and len(self.tape.calls_at(maker)) == 1

        def compute(fault: LayerFault) -> Array:
            tape, current = self.tapes(fault.call), dict[int, Any]()
            numbers = {id(operation): number for number, operation in enumerate(tape.operations)}

            def from_earlier(operation: Operation, arguments: Any, names: Any) -> Any:
                own = numbers[id(operation)]
                number = source[0] if maker is None else tape.calls_at(maker)[0][0] if is_one else own - back
                if maker is not None and not 0 <= number < own:
                    raise ValueError("This call has no equal tensor.")
                tensor = tape.tensor((number, source[1]))
                return change(current.get(id(tensor), tensor), operation, arguments, names)

            return tape.replay({place: from_earlier}, fault.index, current)

        return Edit(cause, description, compute, places=(place,))

    def replace_everywhere(self, cause: Cause, description: str, old: Any, new: Any) -> Edit:
        """Returns the edit that replaces a value in the arguments of all operations.

        Its place is the innermost call in user code that leads to all of them.
        """
        users = [each for each in self.tape.operations if any(leaf is old for leaf in each.leaves)]
        places = (each for each in users[0].places if all(each in user.places for user in users))
        changes = {user.place: partial(with_leaf, old, new) for user in users}
        return Edit(cause, description, partial(self.replay, changes), places=(next(places, self.operation.place),))

    def replay(self, changes: Mapping[CodePlace, Change], fault: LayerFault) -> Array:
        """Returns the output of the call with changed operations."""
        return self.tapes(fault.call).replay(changes, fault.index)


def is_alike(one: Any, other: Any) -> bool:
    """Whether two tensors have equal shapes and types."""
    return tuple(one.shape) == tuple(other.shape) and one.dtype == other.dtype


def value_positions(operation: Operation) -> list[int]:
    """Returns the positions of arguments that are tensors, or numbers other than axes and options."""
    names = operation.parameters
    return [
        number
        for number, value in enumerate(operation.arguments)
        if is_plain_tensor(value) or (is_number(value) and not {*names[number : number + 1]} & (AXES | _OPTIONS))
    ]


def fits(operand: Any, result: Any) -> bool:
    """Whether an operand can replace a result, repeated along axes of size one."""
    if operand.dtype != result.dtype:
        return False
    try:
        return np.broadcast_shapes(tuple(operand.shape), tuple(result.shape)) == tuple(result.shape)
    except ValueError:
        return False
