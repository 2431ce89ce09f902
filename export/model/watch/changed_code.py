"""Changes one expression in a statement of user code, as a person may write it otherwise, and runs the changed code."""

import ast
import contextlib
import copy
import gc
import itertools
import numbers
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_pe.export.model.watch.code_places import CodePlace, is_users, syntax_tree
from keras_pe.export.model.watch.temporary_patches import one_at_a_time

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)  # a power may be too large for the memory
_LOGICAL = (ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ALIKE = (
    *({"sin", "cos"}, {"minimum", "maximum"}, {"min", "max"}, {"floor", "ceil", "round"}, {"zeros", "ones"}),
    *({"tril", "triu"}, {"sum", "mean", "max"}, {"cumsum", "cumprod"}, {"exp", "log", "sqrt", "square", "abs"}),
    *({"repeat", "tile"}, {"argmin", "argmax"}, {"logical_and", "logical_or"}, {"zeros_like", "ones_like"}),
)
_GROWTH, _LEAST = 4, 16
_INLINE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.For)

Namespace = dict[str, Any]


@dataclass(frozen=True)
class ChangedCode:
    """A function of user code with one other expression.

    Attributes:
        function: The function.
        code: Its code with the other expression, which the current thread alone evaluates.
        place: The place of the expression.
        text: The other expression.
    """

    function: types.FunctionType
    code: types.CodeType
    place: CodePlace
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


def limit_growth(own: Any, other: Any) -> Any:
    """Returns another value of an expression, for changed code.

    Raises:
        ValueError: If it is a much larger number, which may be a size that needs too much memory or time.
    """
    if all(isinstance(each, numbers.Real) for each in (own, other)) and abs(other) > _GROWTH * abs(own) + _LEAST:
        raise ValueError(f"A changed number must be at most {_GROWTH} times {own} and {_LEAST}. Received: {other}.")
    return other


def changed_code(function: types.FunctionType, is_changed: Callable[[ast.stmt], bool]) -> Iterator[ChangedCode]:
    """Yields a function with one other expression in one of its statements.

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
    stored = [each for each in ast.walk(own) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    given = [each.arg for each in own.args.args if each.arg != "self"]
    parts = [each for each in ast.walk(own) if isinstance(each, ast.Subscript)]
    for statement in ast.walk(own):
        if not isinstance(statement, _INLINE) or not is_changed(statement):
            continue
        names = list(dict.fromkeys([*given, *(each.id for each in stored if each.lineno <= statement.lineno)]))
        for owner, field, number, node in list(_expressions(statement)):
            for other in (*_others(node, names), *_other_parts(node, parts)):
                with _put(owner, field, number, _in_thread(node, other)):
                    changed = _compile(top, code)
                if changed is not None:
                    text = ast.unparse(node)
                    place = CodePlace(code.co_filename, node.lineno, code.co_qualname, text, node.col_offset)
                    yield ChangedCode(function, changed, place, ast.unparse(other))


def assigned_attributes(place: CodePlace) -> list[str]:
    """Returns the attributes that a statement gives `self`; nothing if it does more, or calls a method of `self`."""
    try:
        (statement,) = ast.parse(place.operation).body
    except (SyntaxError, ValueError):
        return []
    targets = getattr(statement, "targets", [getattr(statement, "target", statement)])
    parts = [part for each in targets for part in getattr(each, "elts", [each])]
    calls = [each.func for each in ast.walk(statement) if isinstance(each, ast.Call)]
    is_alone = isinstance(statement, ast.Assign | ast.AnnAssign) and not any(map(_is_of_self, calls))
    return [each.attr for each in parts] if is_alone and all(map(_is_of_self, parts)) else []


def assigned_by(place: CodePlace, owner: Any, names: Mapping[str, Any]) -> Namespace:
    """Returns the attributes that a statement like `self.table = table(self.size)` gives an object, computed again.

    Args:
        place: The place of the statement.
        owner: The object.
        names: The global names of the module.

    Raises:
        Exception: If the statement reads what only its function knows.
    """
    recorder = _Recorder(owner)
    exec(compile(place.operation, place.file, "exec"), dict(names), {"self": recorder})
    return dict(recorder.given)


def changed_statement(place: CodePlace) -> Iterator[tuple[CodePlace, str, CodePlace]]:
    """Yields the place of an expression of a statement, another expression, and the statement with that one."""
    (statement,) = ast.parse(place.operation).body
    for owner, field, number, node in list(_expressions(statement)):
        for other in _others(node, []):
            with _put(owner, field, number, _in_thread(node, other)):
                changed = ast.unparse(statement)
            yield replace(place, operation=ast.unparse(node)), ast.unparse(other), replace(place, operation=changed)


class _Recorder:
    """An object that records new attributes, and has the others of another object."""

    def __init__(self, owner: Any) -> None:
        vars(self).update(owner=owner, given={})

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["owner"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.given[name] = value


def _is_of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _compile(top: ast.stmt, own: types.CodeType) -> types.CodeType | None:
    """Returns the code of a function in a class or function that has been changed; None if that has other variables."""
    module = ast.fix_missing_locations(ast.Module([top], []))
    todo = [compile(module, own.co_filename, "exec", dont_inherit=True)]
    while todo:
        code = todo.pop()
        if (code.co_qualname, code.co_firstlineno) == (own.co_qualname, own.co_firstlineno):
            return code if code.co_freevars == own.co_freevars else None
        todo += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return None


def _expressions(statement: ast.stmt) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Yields each expression that a statement reads, with its parent, and its field and position there."""
    todo: list[ast.AST] = [statement]
    while todo:
        owner = todo.pop()
        inner = ("body", "orelse") if isinstance(owner, ast.stmt) else ()
        for field, value in ast.iter_fields(owner):
            children = value if isinstance(value, list) else [value]
            if field in ("targets", "target", "annotation", *inner):
                continue
            for number, each in enumerate(children):
                if isinstance(each, ast.expr) and field != "func":
                    yield owner, field, number if children is value else None, each
                if isinstance(each, ast.AST) and not isinstance(each, ast.Lambda):
                    todo.append(each)


@contextlib.contextmanager
def _put(owner: ast.AST, field: str, number: int | None, node: ast.expr) -> Iterator[None]:
    """Gives a node another child within a `with` statement."""
    children: Any = vars(owner) if number is None else getattr(owner, field)
    key = field if number is None else number
    own, children[key] = children[key], node
    try:
        yield
    finally:
        children[key] = own


def _in_thread(node: ast.expr, other: ast.expr) -> ast.expr:
    """Returns an expression that is another one in the current thread alone, within limits."""
    test = ast.parse(f"__import__('threading').get_ident() == {threading.get_ident()}", mode="eval").body
    limit = ast.parse(f"__import__({__name__!r}, fromlist=['limit_growth']).limit_growth", mode="eval").body
    return ast.copy_location(ast.IfExp(test, ast.Call(limit, [node, other], []), node), node)


def _others(node: ast.expr, names: list[str]) -> Iterator[ast.expr]:
    """Yields expressions that a person may write instead of one."""
    if isinstance(node, ast.Constant):
        yield from map(ast.Constant, _other_numbers(node.value))
    elif isinstance(node, ast.Name):
        if node.id in names:
            yield from (ast.Name(name, ast.Load()) for name in names if name != node.id)
            yield from (ast.BinOp(node, step(), ast.Constant(1)) for step in (ast.Add, ast.Sub))
    elif isinstance(node, ast.BinOp):
        yield from _other_operations(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from (ast.Compare(node.left, [op()], node.comparators) for op in _COMPARED if type(node.ops[0]) is not op)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Call):
        yield from _other_calls(node)
    elif isinstance(node, ast.Slice):
        yield from (ast.Slice(None, node.upper, node.step), ast.Slice(node.lower, None, node.step))


def _other_parts(node: ast.expr, parts: Sequence[ast.Subscript]) -> Iterator[ast.expr]:
    """Yields other parts of the same array that the function takes, instead of one."""
    if isinstance(node, ast.Subscript):
        alike = {ast.dump(each): each for each in parts if ast.dump(each.value) == ast.dump(node.value)}
        yield from (each for text, each in alike.items() if text != ast.dump(node))


def _other_numbers(value: Any) -> Iterator[Any]:
    """Yields other numbers or booleans near one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        found = [value + 1, value - 1, 2 * value, value // 2 if isinstance(value, int) else value / 2, 0, 1, -value]
        yield from (each for each in dict.fromkeys(map(type(value), found)) if each != value)


def _other_operations(node: ast.BinOp) -> Iterator[ast.expr]:
    """Yields another operator, one operand alone, exchanged operands, and another order of two operations."""
    left, right = node.left, node.right
    kinds = next((kinds for kinds in (_ARITHMETIC, _LOGICAL) if isinstance(node.op, kinds)), ())
    yield from (ast.BinOp(left, op(), right) for op in kinds if not isinstance(node.op, op))
    yield from (left, right)
    if not isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr | ast.BitXor):
        yield ast.BinOp(right, node.op, left)
    if isinstance(left, ast.BinOp):
        yield ast.BinOp(left.left, left.op, ast.BinOp(left.right, node.op, right))
    if isinstance(right, ast.BinOp):
        yield ast.BinOp(ast.BinOp(left, node.op, right.left), right.op, right.right)


def _other_calls(node: ast.Call) -> Iterator[ast.expr]:
    """Yields a call with exchanged arguments, its first argument, similar functions, its negative, its reverse."""
    for one, other in itertools.combinations(range(len(node.args)), 2):
        arguments = list(node.args)
        arguments[one], arguments[other] = arguments[other], arguments[one]
        yield ast.Call(node.func, arguments, node.keywords)
    if node.args:
        yield node.args[0]
    if isinstance(node.func, ast.Attribute):
        alike = {name for group in _ALIKE if node.func.attr in group for name in group} - {node.func.attr}
        for name in sorted(alike):
            function = copy.copy(node.func)
            function.attr = name
            yield ast.Call(function, node.args, node.keywords)
    yield ast.UnaryOp(ast.USub(), node)
    yield ast.Subscript(node, ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1))), ast.Load())
