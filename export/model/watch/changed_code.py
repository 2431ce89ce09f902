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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from keras_pe.export.model.watch.code_places import CodePlace, is_users, syntax_tree
from keras_pe.export.model.watch.other_expressions import Position, expressions_in, other_expressions
from keras_pe.export.model.watch.temporary_patches import one_at_a_time

_GROWTH, _LEAST = 4, 16
_INLINE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.For)


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


def changed_code(function: types.FunctionType, is_changed: Callable[[ast.stmt], bool]) -> Iterator[ChangedCode]:
    """Yields a function with one other expression in one of its statements, or in all its places in a statement.

    A function that may loop forever is left out: one with `while` or `break`.

    Args:
        function: The function.
        is_changed: Whether a statement is changed.
    """
    code = function.__code__
    line, body = code.co_firstlineno, syntax_tree(code.co_filename).body
    top = copy.deepcopy(next((each for each in body if each.lineno <= line <= (each.end_lineno or 0)), None))
    if top is None:
        return
    functions = [each for each in ast.walk(top) if isinstance(each, ast.FunctionDef)]
    own = next((each for each in functions if (each.name, each.lineno) == (code.co_name, line)), None)
    if own is None or own.decorator_list:
        return
    if any(isinstance(each, ast.While | ast.Break) for each in ast.walk(own)):
        return
    if isinstance(top, ast.ClassDef) and own in top.body:
        top.body = [own]
    known = [each for each in ast.walk(own) if isinstance(each, ast.expr)]
    for statement in ast.walk(own):
        if not isinstance(statement, _INLINE) or not is_changed(statement):
            continue
        alike = defaultdict[str, list[Position]](list)
        for position in expressions_in(statement):
            alike[ast.unparse(position[-1])].append(position)
        for text, positions in alike.items():
            for group in (*([each] for each in positions), *([positions] if len(positions) > 1 else [])):
                node = group[0][-1]
                found = ((each.lineno, code.co_qualname, text, each.col_offset) for *_, each in group)
                places = tuple(CodePlace(code.co_filename, *each) for each in found)
                others = {ast.unparse(each): each for each in other_expressions(node, own, known)}
                for name, other in others.items():
                    with _put_each([(*where, _in_thread(each, other)) for *where, each in group]):
                        changed = _compile(top, code)
                    if changed is not None and name != text:
                        yield ChangedCode(function, changed, places, name)


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
