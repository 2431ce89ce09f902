"""Records the operations inside one call of a layer, and replays the call with one of them changed."""

import copy
import inspect
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Operation, again, recorded_operations, tensors_in
from keras_pe.export.model.watch.recording import LayerCall, state_left_alone
from keras_pe.export.model.watch.temporary_patches import replaced_functions
from keras_pe.export.parity.diagnosis.code_graph import CodeGraph
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.parity.diagnosis.relations import is_number
from keras_pe.export.results import Array

Change = Callable[[Operation, tuple[Any, ...], Mapping[str, Any]], Any]
"""Returns a replacement of an operation's result, from the current arguments of the operation."""

Tapes = Callable[[LayerCall], "Tape"]
"""Returns the tape of a call, which is recorded on first use."""


@dataclass(frozen=True)
class CodeBefore:
    """The code of a layer up to one call of an inner layer, as a layer that returns the result of that call.

    Attributes:
        outer: The layer.
        inner: The inner layer.
        number: The number of the inner layer's call, from zero.
    """

    outer: Any
    inner: Any
    number: int

    @property
    def variables(self) -> Sequence[Any]:
        """The variables of the outer layer."""
        variables: Sequence[Any] = self.outer.variables
        return variables

    def call(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the outer layer, and returns the result of the call of the inner layer."""
        results = list[Any]()

        def keep(usual: Callable[..., Any], *own: Any, **names: Any) -> Any:
            results.append(usual(*own, **names))
            return results[-1]

        with replaced_functions([(self.inner, "call", keep)]):
            self.outer.call(*arguments, **keywords)
        return results[self.number]


def owner_of(fault: LayerFault) -> object:
    """Returns the layer with the code at fault: the called layer, or the layer around it."""
    layer = fault.call.layer
    return layer.outer if isinstance(layer, CodeBefore) else layer


class Tape(CodeGraph):
    """The operations of user code in one call of a layer, which run again with changes."""

    _kept: Collection[int] = ()  # the `id` of each operation that keeps its results

    @classmethod
    def of(cls, call: LayerCall) -> "Tape":
        """Makes a call again, and returns its tape up to the last output; the whole if a library makes the outputs."""
        bound = inspect.signature(call.layer.call).bind(*call.arguments, **call.keywords)
        with state_left_alone(), recorded_operations() as operations:
            result = call.layer.call(*bound.args, **bound.kwargs)
        outputs = tensors_in(result)
        made = [any(each is output for each in operation.outputs for output in outputs) for operation in operations]
        count = max((number for number, is_output in enumerate(made, 1) if is_output), default=len(operations))
        later = {id(operand) for operation in operations[count:] for operand in operation.operands}
        given = {name for name, value in bound.arguments.items() if is_number(value)}
        return cls(operations[:count], tensors_in(dict(bound.arguments)), outputs, read_later=later, given=given)

    def within(self, scope: CodePlace) -> Self:
        """Returns the tape in which only the operations of one call of a user's function may change."""
        tape = copy.copy(self)
        tape.scope = scope
        return tape

    def keeping(self, numbers: frozenset[int]) -> Self:
        """Returns the tape in which some operations keep their results."""
        tape = copy.copy(self)
        tape._kept = {id(self.operations[number]) for number in numbers if number < len(self.operations)}  # noqa: SLF001
        return tape

    def until(self, number: int) -> "Tape":
        """Returns the tape up to an operation, whose result is the output."""
        operations = self.operations[: number + 1]
        return Tape(operations, self.inputs, operations[number].outputs, self.scope, self.read_later, self.given)

    def replay(self, changes: Mapping[CodePlace, Change], index: int, current: dict[int, Any] | None = None) -> Array:
        """Returns an output of the layer with changed operations at some places.

        Args:
            changes: The replacement at each place.
            index: The number of the output among the tensors that the layer returns.
            current: The tensors that are replaced, by the `id` of the tape's own. It receives each changed result.

        Raises:
            ValueError: If an operation must be called again and cannot be.
        """
        now = {} if current is None else current
        for operation in self.operations:
            self.replay_operation(operation, changes, now)
        returned = self.outputs[index]
        return as_array(now.get(id(returned), returned))

    def replay_operation(self, operation: Operation, changes: Mapping[CodePlace, Change], now: dict[int, Any]) -> None:
        """Calls an operation again if it changes, or if an operand is replaced, and replaces its results in `now`.

        Raises:
            ValueError: If an operation must be called again and cannot be.
        """
        if id(operation) in self._kept:
            return
        change = changes.get(operation.place) if self.is_in_scope(operation) else None
        if change is None and not any(id(each) in now for each in operation.operands):
            return
        arguments, keywords = replaced_arguments(operation, now)
        result = again(operation, arguments, keywords) if change is None else change(operation, arguments, keywords)
        made = tensors_in(result)
        if len(made) != len(operation.outputs):
            raise ValueError(f"{operation.place} returns {len(made)} tensors instead of {len(operation.outputs)}.")
        now.update({id(old): new for old, new in zip(operation.outputs, made, strict=True)})


def replaced_arguments(operation: Operation, now: Mapping[int, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of an operation by position and by name, with tensors replaced by their `id`."""
    import keras

    given = (tuple(operation.arguments), dict(operation.keywords))
    found: tuple[tuple[Any, ...], dict[str, Any]] = keras.tree.map_structure(
        lambda leaf: now.get(id(leaf), leaf), given
    )
    return found


def kept_results(faults: Sequence[LayerFault], path: str, tape_of: Callable[[LayerCall], Tape]) -> frozenset[int]:
    """Returns the numbers of the wrong inner calls before one of them, which have Keras' results.

    Args:
        faults: The faults of a layer's code and of its inner calls, in the order of computation.
        path: The path of a call.
        tape_of: Returns the tape of a call.
    """
    before = list(itertools.takewhile(lambda each: each.call.path != path, faults))
    inner = [each.expected for each in before if isinstance(each.call.layer, CodeBefore)]
    if not inner or len(before) == len(faults):
        return frozenset()
    operations = tape_of(faults[len(before)].call).operations
    results = ((number, as_array(each.outputs[0])) for number, each in enumerate(operations) if each.outputs)
    return frozenset(n for n, result in results if any(np.array_equal(result, each) for each in inner))
