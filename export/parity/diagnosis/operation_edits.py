"""Edits of one operation inside a layer: other operands, arguments or results, for the call of any case."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.operations import CodePlace, Operation, is_plain_tensor, tensors_in
from keras_pe.export.parity.diagnosis.edits import Edit, NumericEdit
from keras_pe.export.parity.diagnosis.inside_calls import Change, Source, Tape, Tapes, again
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.results import Array, Cause

CauseOfNumber = Callable[[float], Cause]
"""Returns the cause for a changed number."""

Key = int | str
"""The position of an argument, or its name among the keywords."""


@dataclass(frozen=True)
class EditedOperation:
    """An operation inside a layer that is edited.

    Attributes:
        layer: The layer.
        tapes: The operations of a call, for any case.
        tape: The operations of the first case.
        number: The number of the operation in that tape. An edit changes every operation at the same place in the code.
        constants: The artifact's numbers and short lists of numbers.
    """

    layer: Any
    tapes: Tapes
    tape: Tape
    number: int
    constants: Sequence[Array] = ()

    @property
    def operation(self) -> Operation:
        """The operation in the first case."""
        return self.tape.operations[self.number]

    @property
    def result(self) -> Any | None:
        """The tensor that the operation returns in the first case; None if it returns several."""
        outputs = self.operation.outputs
        return outputs[0] if len(outputs) == 1 else None

    def edit(self, cause: Cause, description: str, change: Change) -> Edit:
        """Returns the edit that replaces the operation."""
        place = self.operation.place
        return Edit(cause, description, partial(self._replay, {place: change}), place=place)

    def change_operands(self, cause: Cause, description: str, change: Callable[[list[Any]], Sequence[Any]]) -> Edit:
        """Returns the edit that changes the operands of the operation."""
        return self.edit(cause, description, partial(with_operands, change))

    def change_result(self, cause: Cause, description: str, function: Callable[[Any], Any]) -> Edit:
        """Returns the edit that applies a function to the result."""
        return self.edit(cause, description, lambda op, args, names: function(again(op, args, names)))

    def numeric(
        self, start: float, description: str, change: Callable[[float], Change], cause: CauseOfNumber
    ) -> NumericEdit:
        """Returns the edit with a number to fit. Its text has braces for the number."""
        place = self.operation.place

        def compute(fault: LayerFault, numbers: Mapping[str, float]) -> Array:
            return self._replay({place: change(numbers["number"])}, fault)

        return NumericEdit(
            {"number": start},
            compute,
            lambda numbers: cause(numbers["number"]),
            lambda numbers: description.format(numbers["number"]),
            place=place,
        )

    def replace_operand(self, source: Source, operand: int, description: str) -> Edit:
        """Returns the edit that replaces an operand by another tensor of the call."""
        place, back = self.operation.place, self.number - source[0]

        def compute(fault: LayerFault) -> Array:
            tape = self.tapes.of(fault)
            numbers = {id(operation): number for number, operation in enumerate(tape.operations)}

            def change(operation: Operation, arguments: Any, names: Any) -> Any:
                number = source[0] if source[0] < 0 else numbers[id(operation)] - back
                if source[0] >= 0 > number:
                    raise ValueError("This call has no equal tensor.")
                tensor = tape.tensor((number, source[1]))
                return with_operands(lambda own: put(own, operand, tensor), operation, arguments, names)

            return tape.replay({place: change}, fault.index)

        return Edit(Cause.OTHER_INPUT, description, compute, place=place)

    def exchange(self, one: Source, other: Source, place: CodePlace) -> Edit:
        """Returns the edit that exchanges two tensors of the call for all their readers."""

        def compute(fault: LayerFault) -> Array:
            tape = self.tapes.of(fault)
            return tape.replay({}, fault.index, {one: tape.tensor(other), other: tape.tensor(one)})

        texts = [self.tape.name(source) for source in (one, other)]
        description = f"and the operations after it, with {' and '.join(texts)} exchanged"
        return Edit(Cause.EXCHANGED_INPUTS, description, compute, place=place)

    def replace_everywhere(self, cause: Cause, description: str, old: Any, new: Any) -> Edit:
        """Returns the edit that replaces a value in the arguments of all operations.

        Its place is the innermost call in user code that leads to all of them.
        """
        users = [each for each in self.tape.operations if any(leaf is old for leaf in each.leaves)]
        places = (each for each in users[0].places if all(each in user.places for user in users))
        changes = {user.place: partial(with_leaf, old, new) for user in users}
        return Edit(cause, description, partial(self._replay, changes), place=next(places, self.operation.place))

    def _replay(self, changes: Mapping[CodePlace, Change], fault: LayerFault) -> Array:
        return self.tapes.of(fault).replay(changes, fault.index)


def with_operands(
    change: Callable[[list[Any]], Sequence[Any]], operation: Operation, arguments: Any, names: Any
) -> Any:
    """Returns an operation's result with other operands, which `change` makes of its own."""
    import keras

    given = (tuple(arguments), dict(names))
    others = iter(change(tensors_in(given)))
    positional, keywords = keras.tree.map_structure(lambda leaf: next(others) if is_plain_tensor(leaf) else leaf, given)
    return again(operation, positional, keywords)


def with_argument(key: Key, value: Any, operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns an operation's result with another value of an argument."""
    if isinstance(key, int):
        return again(operation, [*arguments[:key], value, *arguments[key + 1 :]], names)
    return again(operation, arguments, {**names, key: value})


def with_leaf(old: Any, new: Any, operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns an operation's result with one value in its arguments replaced."""
    import keras

    given = (tuple(arguments), dict(names))
    return again(operation, *keras.tree.map_structure(lambda leaf: new if leaf is old else leaf, given))


def put(operands: Sequence[Any], number: int, tensor: Any) -> list[Any]:
    """Returns operands with one of them replaced."""
    return [*operands[:number], tensor, *operands[number + 1 :]]


def changed_operand(number: int, function: Callable[[Any], Any], operands: Sequence[Any]) -> list[Any]:
    """Returns operands with a function applied to one of them."""
    return put(operands, number, function(operands[number]))


def named_arguments(operation: Operation) -> Iterator[tuple[Key, str, Any]]:
    """Yields the key, the name and the value of each argument that is not a tensor. A nameless one has its position."""
    names = operation.parameters
    for number, value in enumerate(operation.arguments):
        if not is_plain_tensor(value):
            yield number, names[number] if number < len(names) else str(number), value
    for name, value in operation.keywords.items():
        if not is_plain_tensor(value) and name != "name":
            yield name, name, value


def fits(operand: Any, result: Any) -> bool:
    """Whether an operand can replace a result, repeated along axes of size one."""
    if operand.dtype != result.dtype:
        return False
    try:
        return np.broadcast_shapes(tuple(operand.shape), tuple(result.shape)) == tuple(result.shape)
    except ValueError:
        return False


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python or NumPy other than a boolean."""
    return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
