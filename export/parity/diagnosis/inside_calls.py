"""Records the operations inside one call of a layer, and replays the call with one of them changed."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keras_pe.export.model.watch.operations import CodePlace, Operation, recorded_operations, tensors_in
from keras_pe.export.model.watch.recording import LayerCall, state_left_alone
from keras_pe.export.parity.diagnosis.layer_call import as_array
from keras_pe.export.results import Array

Change = Callable[[Operation, tuple[Any, ...], Mapping[str, Any]], Any]
"""Returns a replacement of an operation's result, from the current arguments of the operation."""

Source = tuple[int, int]
"""The number of an operation and of one of its outputs; -1 and the number of an input of the layer."""

Tapes = Callable[[LayerCall], "Tape"]
"""Returns the tape of a call, which is recorded on first use."""

_OF_LAYER = -1


class Tape:
    """The operations of user code in one call of a layer.

    Attributes:
        operations: The operations in the order in which they returned.
        inputs: The tensors that the layer receives.
        outputs: The tensors that the layer returns.
    """

    def __init__(self, operations: Sequence[Operation], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.operations, self.inputs, self.outputs = operations, inputs, outputs
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

    @classmethod
    def of(cls, call: LayerCall) -> "Tape":
        """Makes a call again, and returns its tape."""
        bound = inspect.signature(call.layer.call).bind(*call.arguments, **call.keywords)
        with state_left_alone(), recorded_operations() as operations:
            result = call.layer.call(*bound.args, **bound.kwargs)
        return cls(list(operations), tensors_in(dict(bound.arguments)), tensors_in(result))

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

    def before_line(self, number: int) -> list[Source]:
        """Returns the tensors that the line of an operation reads for its result, without its own operands."""
        place = self.operations[number].place
        found, todo = dict[Source, None](), [*self._sources[number]]
        while todo:
            source = todo.pop()
            before = self.operations[source[0]].place if source[0] != _OF_LAYER else None
            if before is not None and (before.file, before.line) == (place.file, place.line):
                todo += self._sources[source[0]]
            elif source not in self._sources[number]:
                found[source] = None
        return [*found]

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

    def replay(
        self, changes: Mapping[CodePlace, Change], index: int, values: Mapping[Source, Any] | None = None
    ) -> Array:
        """Returns an output of the layer with changed operations at some places.

        Args:
            changes: The replacement at each place.
            index: The number of the output among the tensors that the layer returns.
            values: Replacements of results, by their source.

        Raises:
            ValueError: If an operation must be called again and cannot be.
        """
        import keras

        now = {id(self.tensor(source)): tensor for source, tensor in (values or {}).items()}
        for operation in self.operations:
            change = changes.get(operation.place)
            if change is None and not any(id(each) in now for each in operation.operands):
                continue
            arguments, keywords = keras.tree.map_structure(
                lambda leaf: now.get(id(leaf), leaf), (tuple(operation.arguments), dict(operation.keywords))
            )
            result = again(operation, arguments, keywords) if change is None else change(operation, arguments, keywords)
            made = tensors_in(result)
            if len(made) != len(operation.outputs):
                raise ValueError(f"{operation.place} returns {len(made)} tensors instead of {len(operation.outputs)}.")
            now.update({id(old): new for old, new in zip(operation.outputs, made, strict=True)})
        returned = self.outputs[index]
        return as_array(now.get(id(returned), returned))


def again(operation: Operation, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Calls an operation again with other arguments.

    Raises:
        ValueError: If the operation cannot be called again.
    """
    if operation.function is None:
        raise ValueError(f"{operation.place} cannot be called again.")
    return operation.function(*arguments, **keywords)


def reach(start: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
    """Returns the numbers that steps lead to from some numbers, and these numbers."""
    found, todo = set[int](), [*start]
    while todo:
        number = todo.pop()
        if number not in found:
            found.add(number)
            todo += step(number)
    return found
