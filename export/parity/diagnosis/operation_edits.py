"""Edits of one operation inside a layer: other operands, arguments or results, in whatever case the layer is called."""

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
"""Returns what it is called that a number is another one."""

Key = int | str
"""The place of an argument among those by position, or its name among the keywords."""


@dataclass(frozen=True)
class EditedOperation:
    """An operation inside a layer, of which edits are made.

    Attributes:
        layer: The layer.
        tapes: The operations of a call, in whatever case it is made.
        tape: Those of the first case.
        number: The number of the operation there. In every call each operation at the same place is edited.
    """

    layer: Any
    tapes: Tapes
    tape: Tape
    number: int

    @property
    def operation(self) -> Operation:
        """The operation in the first case."""
        return self.tape.operations[self.number]

    @property
    def result(self) -> Any | None:
        """The tensor that it returns in the first case; None if it returns several."""
        outputs = self.operation.outputs
        return outputs[0] if len(outputs) == 1 else None

    def edit(self, cause: Cause, said: str, change: Change) -> Edit:
        """Returns the edit that computes something else in the place of the operation."""
        place = self.operation.place
        return Edit(cause, said, partial(self._replayed, {place: change}), place=place)

    def given(self, cause: Cause, said: str, change: Callable[[list[Any]], Sequence[Any]]) -> Edit:
        """Returns the edit that gives the operation other operands, made of its own."""
        return self.edit(cause, said, partial(with_operands, change))

    def returned(self, cause: Cause, said: str, function: Callable[[Any], Any]) -> Edit:
        """Returns the edit that passes the result through a function."""
        return self.edit(cause, said, lambda op, args, names: function(again(op, args, names)))

    def numeric(self, start: float, said: str, change: Callable[[float], Change], cause: CauseOfNumber) -> NumericEdit:
        """Returns the edit with a number that is to be found; its text has the place of the number in braces."""
        place = self.operation.place

        def compute(fault: LayerFault, numbers: Mapping[str, float]) -> Array:
            return self._replayed({place: change(numbers["number"])}, fault)

        return NumericEdit(
            {"number": start},
            compute,
            lambda numbers: cause(numbers["number"]),
            lambda numbers: said.format(numbers["number"]),
            place=place,
        )

    def given_other(self, source: Source, operand: int, said: str) -> Edit:
        """Returns the edit that gives the operation another tensor of the call in the place of an operand."""
        place, back = self.operation.place, self.number - source[0]

        def compute(fault: LayerFault) -> Array:
            tape = self.tapes.of(fault)
            numbers = {id(operation): number for number, operation in enumerate(tape.operations)}

            def change(operation: Operation, arguments: Any, names: Any) -> Any:
                number = source[0] if source[0] < 0 else numbers[id(operation)] - back
                if source[0] >= 0 > number:
                    raise ValueError("There is no such tensor in this call.")
                tensor = tape.tensor((number, source[1]))
                return with_operands(lambda own: put(own, operand, tensor), operation, arguments, names)

            return tape.replay({place: change}, fault.index)

        return Edit(Cause.OTHER_INPUT, said, compute, place=place)

    def exchanged(self, one: Source, other: Source, place: CodePlace) -> Edit:
        """Returns the edit that gives whatever is given one tensor of the call another one, and the reverse."""

        def compute(fault: LayerFault) -> Array:
            tape = self.tapes.of(fault)
            return tape.replay({}, fault.index, {one: tape.tensor(other), other: tape.tensor(one)})

        texts = [self.tape.name(source) for source in (one, other)]
        said = f"and what follows, with {' and '.join(texts)} exchanged,"
        return Edit(Cause.EXCHANGED_INPUTS, said, compute, place=place)

    def _replayed(self, changes: Mapping[CodePlace, Change], fault: LayerFault) -> Array:
        return self.tapes.of(fault).replay(changes, fault.index)


def with_operands(
    change: Callable[[list[Any]], Sequence[Any]], operation: Operation, arguments: Any, names: Any
) -> Any:
    """Returns what an operation gives for other operands, which are made of its own."""
    import keras

    given = (tuple(arguments), dict(names))
    others = iter(change(tensors_in(given)))
    positional, keywords = keras.tree.map_structure(lambda leaf: next(others) if is_plain_tensor(leaf) else leaf, given)
    return again(operation, positional, keywords)


def with_argument(key: Key, value: Any, operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns what an operation gives with another value of an argument."""
    if isinstance(key, int):
        return again(operation, [*arguments[:key], value, *arguments[key + 1 :]], names)
    return again(operation, arguments, {**names, key: value})


def with_leaf(old: Any, new: Any, operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns what an operation gives with another value in the place of one in its arguments."""
    import keras

    given = (tuple(arguments), dict(names))
    return again(operation, *keras.tree.map_structure(lambda leaf: new if leaf is old else leaf, given))


def put(operands: Sequence[Any], number: int, tensor: Any) -> list[Any]:
    """Returns operands with another tensor in the place of one."""
    return [*operands[:number], tensor, *operands[number + 1 :]]


def changed_operand(number: int, function: Callable[[Any], Any], operands: Sequence[Any]) -> list[Any]:
    """Returns operands with one of them passed through a function."""
    return put(operands, number, function(operands[number]))


def named_arguments(operation: Operation) -> Iterator[tuple[Key, str, Any]]:
    """Yields the key, the name and the value of each argument that is no tensor; its place if it has no name."""
    names = operation.parameters
    for number, value in enumerate(operation.arguments):
        if not is_plain_tensor(value):
            yield number, names[number] if number < len(names) else str(number), value
    for name, value in operation.keywords.items():
        if not is_plain_tensor(value) and name != "name":
            yield name, name, value


def fits(operand: Any, result: Any) -> bool:
    """Whether an operand may stand in the place of a result, repeated along axes where it is of size one."""
    if operand.dtype != result.dtype:
        return False
    try:
        return np.broadcast_shapes(tuple(operand.shape), tuple(result.shape)) == tuple(result.shape)
    except ValueError:
        return False


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python or NumPy, no truth value."""
    return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
