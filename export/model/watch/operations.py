"""The record of the operations on tensors that user code calls, with operands, result, file and line."""

import contextlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from keras_pe.export.model.watch.code_places import CodePlace, code_places, is_users, is_users_module

_WRAPPED = ("fn", "func", "dispatch_target", "op")  # the names of the wrapped function in wrappers of libraries
_NOT_MADE_AGAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


Key = int | str
"""The position of an argument, or its name among the keywords."""


class Argument(NamedTuple):
    """An argument of an operation: its position or keyword, its name, and its value."""

    key: Key
    name: str
    value: Any


@dataclass(frozen=True, eq=False)
class Operation:
    """One call of a library's function that user code made with tensors.

    Attributes:
        place: The location of the call in user code.
        function: The called function; None if it cannot be called again.
        arguments: Its arguments by position.
        keywords: Its arguments by name.
        result: The result of the call.
        callers: The calls of user code around it, the innermost first.
    """

    place: CodePlace
    function: Callable[..., Any] | None
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    result: Any
    callers: tuple[CodePlace, ...] = ()

    @property
    def places(self) -> tuple[CodePlace, ...]:
        """The location of the call, and those of the calls around it."""
        return (self.place, *self.callers)

    @property
    def leaves(self) -> list[Any]:
        """The values in its arguments, in order."""
        import keras

        found: list[Any] = keras.tree.flatten((self.arguments, dict(self.keywords)))
        return found

    @cached_property
    def operands(self) -> list[Any]:
        """The tensors among its arguments, in order."""
        return tensors_in((self.arguments, self.keywords))

    @cached_property
    def constants(self) -> list[Argument]:
        """The arguments that are not tensors. A nameless one has its position as its name."""
        names, positional = self.parameters, enumerate(self.arguments)
        found = [Argument(n, names[n] if n < len(names) else str(n), value) for n, value in positional]
        found += [Argument(name, name, value) for name, value in self.keywords.items() if name != "name"]
        return [each for each in found if not is_plain_tensor(each.value)]

    @cached_property
    def outputs(self) -> list[Any]:
        """The tensors in its result, in order."""
        return tensors_in(self.result)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of its arguments, positional ones first; empty if the function has no signature."""
        function = _find_wrapped(self.function)
        try:
            names = list(inspect.signature(function).parameters) if function is not None else []
        except (TypeError, ValueError):
            return ()
        return (*names[: len(self.arguments)], *self.keywords)


def again(operation: Operation, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Calls an operation again with other arguments.

    Raises:
        ValueError: If the operation cannot be called again.
    """
    if operation.function is None:
        raise ValueError(f"{operation.place} cannot be called again.")
    return operation.function(*arguments, **keywords)


def tensors_in(structure: Any) -> list[Any]:
    """Returns the tensors in a structure, without variables."""
    import keras

    return [leaf for leaf in keras.tree.flatten(structure) if is_plain_tensor(leaf)]


def is_plain_tensor(leaf: Any) -> bool:
    """Whether a value is a tensor of the backend, not a variable of Keras."""
    import keras

    return not isinstance(leaf, keras.Variable) and bool(keras.ops.is_tensor(leaf))


@contextlib.contextmanager
def recorded_operations() -> Iterator[list[Operation]]:
    """Records the operations on tensors that user code calls in this thread, in the order in which they return.

    An operation is a call of a library's function, an operator or a layer from user code. The library may be Keras,
    the backend or another one. Calls within a library are not recorded. A call of a user's layer is like a call of a
    user's function: the operations inside are recorded instead of the call.
    """
    recorder = _Recorder()
    before = sys.getprofile()
    sys.setprofile(recorder)
    try:
        yield recorder.operations
    finally:
        sys.setprofile(before)


class _OpenCall:
    """A call of a library's function that has not returned.

    Attributes:
        frame: The frame of the function.
        places: The locations of the call and of the calls around it in user code, the innermost first.
        inside: The frame of the user's layer that the function calls with its own arguments; None in other code.
    """

    def __init__(self, frame: types.FrameType, around: tuple[CodePlace, ...], start: int) -> None:
        self.frame = frame
        self.inside: types.FrameType | None = None
        self.places = (*code_places(frame), *around)
        self._function = _function(frame)
        self._arguments = _arguments(frame)
        self._start = start
        layer = type(next(iter(self._arguments[0]), None))
        call = getattr(layer, "call", None) if is_users_module(layer.__module__) else None
        self._code = getattr(call, "__code__", None)

    def enter(self, frame: types.FrameType) -> None:
        """Sets `inside` to a frame that begins if the frame is the call of the user's layer with the same tensors."""
        if frame.f_code is self._code:
            given = {id(each) for each in tensors_in(self._arguments)}
            if all(id(each) in given for each in tensors_in(_arguments(frame))):
                self.inside = frame

    def end(self, operations: list[Operation], result: Any) -> None:
        """Adds the call to the operations, unless the operations inside return its result."""
        (place, *callers), (arguments, keywords) = self.places, self._arguments
        call = Operation(place, self._function, arguments, keywords, result, tuple(callers))
        inner = [each for operation in operations[self._start :] for each in operation.outputs]
        if inner and all(any(each is own for own in (*inner, *call.operands)) for each in call.outputs):
            return
        del operations[self._start :]
        is_handed_on = len(call.outputs) == 1 and any(call.outputs[0] is each for each in call.operands)
        if call.outputs and not is_handed_on:
            operations.append(call)


class _Recorder:
    """A profile function, which Python calls when a function begins and ends."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._open: list[_OpenCall] = []

    def __call__(self, frame: types.FrameType, event: str, result: Any) -> None:
        call = self._open[-1] if self._open else None
        if call is not None and call.inside is None:
            if event == "return" and frame is call.frame:
                self._open.pop().end(self.operations, result)
            elif event == "call":
                call.enter(frame)
        elif call is not None and event == "return" and frame is call.inside:
            call.inside = None
        elif event == "call" and frame.f_back is not None and is_users(frame.f_back) and not is_users(frame):
            self._open.append(_OpenCall(frame, call.places if call is not None else (), len(self.operations)))


def _function(frame: types.FrameType) -> Callable[..., Any] | None:
    """Returns the function of a frame that has just begun; None for a generator, or if a cell of it is empty."""
    code = frame.f_code
    if code.co_flags & _NOT_MADE_AGAIN:
        return None
    names = frame.f_locals
    if any(name not in names for name in code.co_freevars):
        return None
    closure = tuple(types.CellType(names[name]) for name in code.co_freevars)
    return types.FunctionType(code, frame.f_globals, code.co_name, None, closure)


def _arguments(frame: types.FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a frame that has just begun, with the defaults."""
    names, rest, options, values = inspect.getargvalues(frame)
    count = frame.f_code.co_argcount
    arguments = (*(values[name] for name in names[:count]), *(values[rest] if rest else ()))
    return arguments, {name: values[name] for name in names[count:]} | (values[options] if options else {})


def _find_wrapped(function: Any) -> Any:
    """Returns the function in the wrappers that libraries put around it."""
    while isinstance(function, types.FunctionType) and function.__code__.co_flags & inspect.CO_VARARGS:
        closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        inner = next((closure[name].cell_contents for name in _WRAPPED if name in closure), None)
        if not callable(inner) or inner is function:
            break
        function = inner
    return function
