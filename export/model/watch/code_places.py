"""Locations in user code: modules, files, lines and expressions."""

import ast
import linecache
import sys
import traceback
import types
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Any

_LIBRARIES = frozenset(
    {"jax", "jaxlib", "keras", "keras_pe", "ml_dtypes", "numpy", "optree", "tensorflow", "torch", "tree"}
)
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


def is_users(frame: types.FrameType) -> bool:
    """Whether a frame runs user code."""
    return is_users_module(str(frame.f_globals.get("__name__", "")))


@lru_cache(maxsize=4096)
def is_users_module(name: str) -> bool:
    """Whether a module is a user's own: neither a library's that computes with tensors nor Python's."""
    top = name.partition(".")[0]
    return top not in _LIBRARIES and (top not in sys.stdlib_module_names or top == "__main__")


def describe_line(file: str, line: int) -> str:
    """Returns a location in a file, such as "(decoder.py, line 31)"."""
    return f"({PurePath(file).name}, line {line})"


def syntax_tree(file: str) -> ast.Module:
    """Returns the syntax tree of a file; an empty one if a cell of a notebook has commands that are not Python."""
    return _parse(tuple(linecache.getlines(file)))


@lru_cache(maxsize=64)
def _parse(lines: tuple[str, ...]) -> ast.Module:
    try:
        return ast.parse("".join(lines))
    except SyntaxError:
        return ast.Module([], [])


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


def code_places(called: types.FrameType) -> list[CodePlace]:
    """Returns the locations of the calls that led to a frame in user code, the innermost first."""
    found = list[CodePlace]()
    while called.f_back is not None and is_users(called.f_back):
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
