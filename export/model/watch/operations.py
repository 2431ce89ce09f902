"""The record of the operations on tensors that user code calls, with operands, result, file and line."""

import contextlib
import inspect
import linecache
import sys
import traceback
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePath
from typing import Any

_LIBRARIES = frozenset(
    {"jax", "jaxlib", "keras", "keras_pe", "ml_dtypes", "numpy", "optree", "tensorflow", "torch", "tree"}
)
_WRAPPED = ("fn", "func", "dispatch_target", "op")  # the names of the wrapped function in wrappers of libraries
_NOT_MADE_AGAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_LONGEST = 60  # characters of an expression in a sentence


@dataclass(frozen=True)
class CodePlace:
    """A location in user code.

    Attributes:
        file: The file, as Python names it.
        line: The line on which the expression begins.
        function: The function around it, such as "Decode.call".
        operation: The expression, such as "ops.square(size)"; the name of the called function without source text.
        column: The column on which the expression begins.
    """

    file: str
    line: int
    function: str
    operation: str
    column: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a `Finding` that name the location."""
        return {"file": self.file, "line": self.line, "operation": self.operation}

    @property
    def location(self) -> str:
        """The function, file and line in words."""
        return f"`{self.function}` {describe_line(self.file, self.line)}"

    @property
    def text(self) -> str:
        """The expression; the beginning and the end of a long one."""
        text = self.operation
        if len(text) <= _LONGEST:
            return text
        return f"{text[: _LONGEST // 2 - 3]} ... {text[3 - _LONGEST // 2 :]}"

    def __str__(self) -> str:
        return f"{self.location}: `{self.text}`"


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
    the backend or another one. Calls within a library are not recorded.
    """
    recorder = _Recorder()
    before = sys.getprofile()
    sys.setprofile(recorder)
    try:
        yield recorder.operations
    finally:
        sys.setprofile(before)


class _Recorder:
    """A profile function, which Python calls when a function begins and ends."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._open: types.FrameType | None = None
        self._begun: tuple[Any, ...] = ()

    def __call__(self, frame: types.FrameType, event: str, result: Any) -> None:
        if self._open is not None:
            if frame is self._open and event == "return":
                self._end(result)
            return
        if event != "call" or frame.f_back is None or not _is_users(frame.f_back) or _is_users(frame):
            return
        self._open = frame
        self._begun = (_places(frame), _function(frame), *_arguments(frame))

    def _end(self, result: Any) -> None:
        (place, *callers), function, arguments, keywords = self._begun
        self._begun = ()
        # The lines below call Python functions. They are not recorded, since `_open` is reset only at the end.
        operation = Operation(place, function, arguments, keywords, result, tuple(callers))
        is_handed_on = len(operation.outputs) == 1 and any(operation.outputs[0] is each for each in operation.operands)
        if operation.outputs and not is_handed_on:
            self.operations.append(operation)
        self._open = None


def _is_users(frame: types.FrameType) -> bool:
    return is_users_module(str(frame.f_globals.get("__name__", "")))


@lru_cache(maxsize=4096)
def is_users_module(name: str) -> bool:
    """Whether a module is a user's own: neither a library's that computes with tensors nor Python's."""
    top = name.partition(".")[0]
    return top not in _LIBRARIES and (top not in sys.stdlib_module_names or top == "__main__")


def describe_line(file: str, line: int) -> str:
    """Returns a location in a file, such as "(decoder.py, line 31)"."""
    return f"({PurePath(file).name}, line {line})"


def users_line(frames: Iterable[traceback.FrameSummary], within: Collection[str]) -> tuple[str, int] | None:
    """Returns the file and the line of the innermost frame in user code.

    Args:
        frames: The frames, outermost first.
        within: Names of modules. Frames outside the innermost frame of these modules do not count.
    """
    names = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    for frame in reversed(list(frames)):
        module = names.get(frame.filename, "__main__")  # no module has been imported from the file of a notebook
        if module in within:
            break
        if frame.lineno is not None and not frame.filename.startswith("<frozen ") and is_users_module(module):
            return frame.filename, frame.lineno
    return None


def _places(called: types.FrameType) -> list[CodePlace]:
    """Returns the locations of the calls that led to a frame in user code, the innermost first."""
    found = list[CodePlace]()
    while called.f_back is not None and _is_users(called.f_back):
        found.append(_place(called.f_back, called))
        called = called.f_back
    return found


def _place(caller: types.FrameType, called: types.FrameType) -> CodePlace:
    """Returns the location of the expression that a frame evaluates."""
    code = caller.f_code
    positions = list(code.co_positions())[caller.f_lasti // 2]
    line, last, column, end = positions
    line = line or caller.f_lineno
    text = ""
    if last is not None and column is not None and end is not None:
        lines = [linecache.getline(code.co_filename, each, caller.f_globals) for each in range(line, last + 1)]
        text = _cut([each.encode() for each in lines], column, end)
    name = code.co_qualname.replace("<locals>.", "").rpartition(".<")[0] or code.co_qualname.replace("<locals>.", "")
    function = ".".join(name.split(".")[-2:])
    return CodePlace(code.co_filename, line, function, text or f"{called.f_code.co_name}(...)", column or 0)


def _cut(lines: list[bytes], column: int, end: int) -> str:
    """Returns the text between two columns, which count bytes, of the first and the last line; on one line."""
    if not lines or not lines[-1]:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][column:]
    text = " ".join(" ".join(each.decode("utf-8", "replace") for each in lines).split())
    return text.replace("( ", "(").replace(", )", ")").replace(" )", ")")


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
