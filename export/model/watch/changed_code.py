"""Changes one expression in a statement of user code, as a person may write it otherwise, and runs the changed code."""

import ast
import contextlib
import copy
import gc
import numbers
import sys
import threading
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from keras_pe.export.model.watch.code_places import CodePlace, is_users, syntax_tree
from keras_pe.export.model.watch.other_expressions import (
    Position,
    backwards,
    expressions_in,
    is_of_self,
    other_expressions,
)
from keras_pe.export.model.watch.temporary_patches import one_at_a_time

_GROWTH, _LEAST = 4, 16
_INLINE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.For, ast.If)


@dataclass(frozen=True)
class ChangedCode:
    """A function of user code with one other expression.

    Attributes:
        function: The function.
        code: Its code with the other expression, which the current thread alone evaluates.
        places: The places of the expression: one, or all in its statement.
        text: The other expression.
    """

    function: types.FunctionType
    code: types.CodeType
    places: tuple[CodePlace, ...]
    text: str

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Gives the function the other code within a `with` statement."""
        with one_at_a_time:
            own, self.function.__code__ = self.function.__code__, self.code
            try:
                yield
            finally:
                self.function.__code__ = own


def functions_run(call: Callable[[], Any]) -> list[types.FunctionType]:
    """Returns the functions of user code without a decorator that a call runs, apart from functions inside others."""
    codes = dict[types.CodeType, None]()

    def note(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and is_users(frame) and "<" not in frame.f_code.co_qualname:
            codes.setdefault(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    owners = [owner for owner in gc.get_referrers(*codes) if isinstance(owner, types.FunctionType)]
    return [owner for code in codes for owner in owners if owner.__code__ is code]


def limit_growth(other: Any, own: Callable[[], Any]) -> Any:
    """Returns another value of an expression, for changed code.

    Raises:
        ValueError: If it is a much larger number, which may be a size that needs too much memory or time.
    """
    if isinstance(other, numbers.Real) and abs(float(other)) > _LEAST:
        number = own()
        if isinstance(number, numbers.Real) and abs(float(other)) > _GROWTH * abs(float(number)) + _LEAST:
            raise ValueError(f"A number must be at most {_GROWTH} times {number} and {_LEAST}. Received: {other}.")
    return other


def changed_code(
    function: types.FunctionType, is_changed: Callable[[ast.stmt], bool], *, is_larger: bool = False
) -> Iterator[ChangedCode]:
    """Yields a function with one other expression in one of its statements.

    A function that may loop forever is left out: one with `while` or `break`.

    Args:
        function: The function.
        is_changed: Whether a statement is changed.
        is_larger: Whether to yield larger changes only: an addition to an expression, or a change in all its places in
            a statement.
    """
    syntax = _Syntax.of(function)
    if syntax is None:
        return
    for positions in syntax.positions(is_changed):
        node = positions[0][-1]
        others = {ast.unparse(each): each for each in other_expressions(node, syntax.function, syntax.known)}
        added = {text for text, each in others.items() if any(part is node for part in ast.iter_child_nodes(each))}
        others.pop(ast.unparse(node), None)
        if isinstance(positions[0][0], ast.Assign) and isinstance(positions[0][0].targets[0], ast.Tuple):
            exchanged = backwards(ast.List([ast.Starred(node, ast.Load())], ast.Load()))  # the values of two names
            others[ast.unparse(exchanged)] = exchanged
        groups = [(each,) for each in positions]
        # An attribute that changes in all places is changed where it is set.
        is_of_all = is_larger and len(positions) > 1 and not is_of_self(node)
        for group in (*groups, tuple(positions)) if is_of_all else groups:
            own = [each for text, each in others.items() if (text in added or len(group) > 1) is is_larger]
            yield from filter(None, (syntax.with_other(group, each) for each in own))


def other_numbers(
    function: types.FunctionType, is_changed: Callable[[ast.stmt], bool]
) -> Iterator[tuple[CodePlace, float, Callable[[float], ChangedCode | None]]]:
    """Yields each fractional number in a function with its place, and the function with another number there.

    Args:
        function: The function.
        is_changed: Whether a statement is changed.
    """
    syntax = _Syntax.of(function)
    if syntax is None:
        return
    for positions in syntax.positions(is_changed):
        for each in positions:
            if isinstance(value := getattr(each[-1], "value", None), float):
                yield syntax.place(each), value, partial(syntax.with_number, each)


@dataclass(frozen=True)
class _Syntax:
    """The syntax tree of a function of user code.

    Attributes:
        owner: The function, as an object.
        top: The class or function of the module that it is in.
        function: The function in that tree.
    """

    owner: types.FunctionType
    top: ast.stmt
    function: ast.FunctionDef

    @classmethod
    def of(cls, owner: types.FunctionType) -> "_Syntax | None":
        """Returns a copy of a function's syntax tree; None for a function that is not changed."""
        line, body = owner.__code__.co_firstlineno, syntax_tree(owner.__code__.co_filename).body
        top = copy.deepcopy(next((each for each in body if each.lineno <= line <= (each.end_lineno or 0)), None))
        functions = [each for each in ast.walk(top) if isinstance(each, ast.FunctionDef)] if top is not None else []
        own = next((each for each in functions if (each.name, each.lineno) == (owner.__code__.co_name, line)), None)
        if top is None or own is None or own.decorator_list:
            return None
        if any(isinstance(each, ast.While | ast.Break) for each in ast.walk(own)):
            return None
        if isinstance(top, ast.ClassDef) and own in top.body:
            top.body = [own]
        return cls(owner, top, own)

    @cached_property
    def known(self) -> list[ast.expr]:
        """The expressions in the function."""
        return [each for each in ast.walk(self.function) if isinstance(each, ast.expr)]

    def positions(self, is_changed: Callable[[ast.stmt], bool]) -> Iterator[list[Position]]:
        """Yields the places of each expression in a statement that is changed."""
        for statement in ast.walk(self.function):
            if isinstance(statement, _INLINE) and is_changed(statement):
                alike = defaultdict[str, list[Position]](list)
                for position in expressions_in(statement):
                    alike[ast.unparse(position[-1])].append(position)
                yield from alike.values()

    def place(self, position: Position) -> CodePlace:
        """Returns the place of an expression."""
        node, code = position[-1], self.owner.__code__
        return CodePlace(code.co_filename, node.lineno, code.co_qualname, ast.unparse(node), node.col_offset)

    def with_number(self, position: Position, number: float) -> ChangedCode | None:
        """Returns the function with another number at a place."""
        return self.with_other([position], ast.Constant(number))

    def with_other(self, positions: Sequence[Position], other: ast.expr) -> ChangedCode | None:
        """Returns the function with another expression at some places; None if it cannot be compiled."""
        with _put_each([(*where, _in_thread(node, other)) for *where, node in positions]):
            code = _compile(self.top, self.owner.__code__)
        if code is None:
            return None
        return ChangedCode(self.owner, code, tuple(map(self.place, positions)), ast.unparse(other))


def _compile(top: ast.stmt, own: types.CodeType) -> types.CodeType | None:
    """Returns the code of a function in a class or function that has been changed; None if it cannot be run."""
    module = ast.fix_missing_locations(ast.Module([top], []))
    try:
        todo = [compile(module, own.co_filename, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, TypeError):  # such as a part of an index outside of one
        return None
    while todo:
        code = todo.pop()
        if (code.co_qualname, code.co_firstlineno) == (own.co_qualname, own.co_firstlineno):
            return code if code.co_freevars == own.co_freevars else None
        todo += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return None


@contextlib.contextmanager
def _put_each(children: Iterable[tuple[Any, ...]]) -> Iterator[None]:
    """Gives nodes other children within a `with` statement: each by its parent, and its field and position there."""
    with contextlib.ExitStack() as stack:
        for owner, field, number, node in children:
            own: Any = vars(owner) if number is None else getattr(owner, field)
            key = field if number is None else number
            stack.callback(own.__setitem__, key, own[key])
            own[key] = node
        yield


def _in_thread(node: ast.expr, other: ast.expr) -> ast.expr:
    """Returns an expression that is another one in the current thread alone, within limits."""
    own = _value_of(node)
    source = (
        f"own if __import__('threading').get_ident() != {threading.get_ident()} else"
        f" __import__({__name__!r}, fromlist=['limit_growth']).limit_growth(other, lambda: own)"
    )
    choice = ast.parse(source, mode="eval").body
    _Named({"own": own, "other": _value_of(copy.deepcopy(other))}).visit(choice)
    return ast.copy_location(choice, node)


class _Named(ast.NodeTransformer):
    """Puts expressions in the places of names."""

    def __init__(self, expressions: Mapping[str, ast.expr]) -> None:
        self._expressions = expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._expressions.get(node.id, node)


def _value_of(index: ast.expr) -> ast.expr:
    """Returns the parts of an index, such as `1:`, as expressions."""
    if isinstance(index, ast.Tuple):
        return ast.Tuple(list(map(_value_of, index.elts)), ast.Load())
    if not isinstance(index, ast.Slice):
        return index
    ends = [each or ast.Constant(None) for each in (index.lower, index.upper, index.step)]
    return ast.Call(ast.Name("slice", ast.Load()), ends, [])
