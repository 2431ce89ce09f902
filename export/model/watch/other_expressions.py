"""Finds what a person may write instead of an expression: another number, name, operator, function or order."""

import ast
import copy
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)  # a power may be too large for the memory
_LOGICAL = (ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ALIKE = (
    *({"sin", "cos"}, {"minimum", "maximum"}, {"min", "max"}, {"floor", "ceil", "round"}, {"zeros", "ones"}),
    *({"tril", "triu"}, {"sum", "mean", "max"}, {"cumsum", "cumprod"}, {"repeat", "tile"}, {"argmin", "argmax"}),
    *({"exp", "expm1", "log", "log1p", "sqrt", "square", "abs"}, {"logical_and", "logical_or"}),
    *({"zeros_like", "ones_like"}, {"stack", "concatenate"}, {"linspace", "geomspace"}),
)
_OPTIONS = {"linspace": "endpoint=False", "meshgrid": "indexing='ij'"}  # other values than the defaults
_MOST_ALIKE = 12  # other expressions of the function, the nearest first

Position = tuple[ast.AST, str, int | None, ast.expr]
"""The parent of an expression, its field and position there, and the expression."""


def expressions_in(statement: ast.stmt) -> Iterator[Position]:
    """Yields each expression that a statement reads."""
    todo: list[ast.AST] = [statement]
    while todo:
        owner = todo.pop()
        inner = ("body", "orelse") if isinstance(owner, ast.stmt) else ()
        for field, value in ast.iter_fields(owner):
            children = value if isinstance(value, list) else [value]
            if field in ("annotation", *inner):
                continue
            for number, each in enumerate(children):
                is_read = isinstance(getattr(each, "ctx", ast.Load()), ast.Load)
                if isinstance(each, ast.expr) and is_read and field != "func":
                    yield owner, field, number if children is value else None, each
                if isinstance(each, ast.AST) and not isinstance(each, ast.Lambda):
                    todo.append(each)


def other_expressions(node: ast.expr, function: ast.FunctionDef, known: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """Yields expressions that a person may write instead of one.

    Args:
        node: The expression.
        function: The function around it.
        known: The expressions in the function.
    """
    if isinstance(node, ast.Constant):
        yield from map(ast.Constant, _other_numbers(node.value))
    elif isinstance(node, ast.Name):
        yield from _other_names(node, function, known)
    elif isinstance(node, ast.BinOp):
        yield from _other_operations(node)
        yield from _with_exchanged_names(node)
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
    elif isinstance(node, ast.Tuple | ast.List):
        yield from (type(node)(elements, ast.Load()) for elements in (*exchanged_pairs(node.elts), node.elts[::-1]))
        yield from (type(node)(elements, ast.Load()) for elements in _exchanged_signs(node.elts))
        negative = [each.operand for each in node.elts if isinstance(each, ast.UnaryOp)]
        yield from [type(node)(negative, ast.Load())] if len(negative) == len(node.elts) else ()
        yield from node.elts if isinstance(node, ast.Tuple) else ()
    elif isinstance(node, ast.Attribute):
        yield from [node.value] if node.attr == "T" else []
        yield from _numbers_near(node) if is_of_self(node) else ()
    if isinstance(node, ast.BinOp | ast.Subscript | ast.Attribute):
        yield from _alike(node, known)
    if isinstance(node, ast.Name | ast.Call):
        yield from (backwards(node), backwards(node, ast.Constant(...)))


def exchanged_pairs(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yields values with two of them exchanged."""
    return (exchanged_pair(*pair, values) for pair in itertools.combinations(range(len(values)), 2))


def exchanged_pair(one: int, other: int, values: Sequence[Any]) -> list[Any]:
    """Returns values with those at two positions exchanged."""
    now = list(values)
    now[one], now[other] = now[other], now[one]
    return now


def _exchanged_signs(elements: Sequence[ast.expr]) -> Iterator[list[ast.expr]]:
    """Yields expressions with a minus before another one of them."""
    for one, other in itertools.permutations(range(len(elements)), 2):
        negative = elements[one]
        if isinstance(negative, ast.UnaryOp) and isinstance(negative.op, ast.USub):
            now = {one: negative.operand, other: ast.UnaryOp(ast.USub(), elements[other])}
            yield [now.get(number, each) for number, each in enumerate(elements)]


def _other_numbers(value: Any) -> Iterator[Any]:
    """Yields other numbers or booleans near one. A factor of 0.0 would hide whatever it scales."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        own = [value // 2, 0] if isinstance(value, int) else [value / 2]
        found = [value + 1, value - 1, 2 * value, *own, 1, -value]
        yield from (each for each in dict.fromkeys(map(type(value), found)) if each != value)


def _other_names(node: ast.Name, function: ast.FunctionDef, known: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """Yields the other variables that a function has at a variable, and numbers near the variable."""
    stored = (each for each in known if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    given = [each.arg for each in function.args.args if each.arg != "self"]
    names = list(dict.fromkeys([*given, *(each.id for each in stored if each.lineno <= node.lineno)]))
    if node.id in names:
        yield from (ast.Name(name, ast.Load()) for name in names if name not in (node.id, "_"))
        parts = (each for each in known if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load))
        yield from {each.attr: each for each in parts if is_of_self(each)}.values()
        yield from _numbers_near(node)
        yield ast.Constant(1)


def _numbers_near(node: ast.expr) -> Iterator[ast.expr]:
    """Yields numbers near a variable or an attribute."""
    yield from (ast.BinOp(node, step(), ast.Constant(1)) for step in (ast.Add, ast.Sub))
    yield ast.BinOp(ast.Constant(2), ast.Mult(), node)


def is_of_self(node: ast.expr) -> bool:
    """Whether an expression is an attribute of the object whose method this is."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


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
    for inner in (right, *_moved_out(right)):
        if isinstance(inner, ast.BinOp):
            yield ast.BinOp(ast.BinOp(left, node.op, inner.left), inner.op, inner.right)


def _other_calls(node: ast.Call) -> Iterator[ast.expr]:
    """Yields a call with other arguments or options, of a similar function, and with its result otherwise."""
    yield from (ast.Call(node.func, arguments, node.keywords) for arguments in exchanged_pairs(node.args))
    yield from node.args[:1]
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call | ast.BinOp | ast.Subscript):
        yield node.func.value
    yield from _moved_out(node)
    for number, option in enumerate(node.keywords):
        if option.arg is not None:
            yield ast.Call(node.func, node.args, [*node.keywords[:number], *node.keywords[number + 1 :]])
    name = getattr(node.func, "attr", "")
    if name in _OPTIONS and not node.keywords:
        options = ast.parse(f"f({_OPTIONS[name]})", mode="eval").body.keywords  # type: ignore[attr-defined]
        yield ast.Call(node.func, node.args, [*node.keywords, *options])
    for other in sorted({other for group in _ALIKE if name in group for other in group} - {name}):
        function = ast.Attribute(node.func.value, other, ast.Load())  # type: ignore[attr-defined]
        yield ast.Call(function, node.args, node.keywords)
    yield from _other_repetitions(node, name)
    yield from _other_ranges(node, name)
    yield ast.UnaryOp(ast.USub(), node)
    yield from (ast.BinOp(node, step(), ast.Constant(1)) for step in (ast.Add, ast.Sub))


def _other_ranges(node: ast.Call, name: str) -> Iterator[ast.expr]:
    """Yields a range that ends with 0 from 0 upwards."""
    if name in ("range", "arange") and [ast.unparse(each) for each in node.args[1:]] == ["-1", "-1"]:
        first = node.args[0]
        if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Sub):
            yield ast.Call(node.func, [first.left], node.keywords)


def _other_repetitions(node: ast.Call, name: str) -> Iterator[ast.expr]:
    """Yields whole copies of an array instead of repeated values, and repeated values instead of whole copies."""
    if not isinstance(node.func, ast.Attribute) or not node.args:
        return
    first, *others = node.args
    function = partial(ast.Attribute, node.func.value, ctx=ast.Load())
    if name == "repeat" and others:
        copies = ast.BinOp(ast.List([first], ast.Load()), ast.Mult(), others[0])
        yield ast.Call(function("concatenate"), [copies, *others[1:]], node.keywords)
    elif name == "concatenate" and isinstance(first, ast.List) and len({*map(ast.dump, first.elts)}) == 1:
        given = [first.elts[0], ast.Constant(len(first.elts)), *others]
        yield ast.Call(function("repeat"), given, node.keywords)
    elif name == "tile" and others and isinstance(others[0], ast.Tuple | ast.List):
        for axis, count in enumerate(others[0].elts):
            yield ast.Call(function("repeat"), [first, count, ast.Constant(axis)], [])


def backwards(node: ast.expr, *before: ast.expr) -> ast.expr:
    """Returns an array backwards along an axis, after the indices of other axes."""
    order = ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))
    return ast.Subscript(node, ast.Tuple([*before, order], ast.Load()) if before else order, ast.Load())


def _with_exchanged_names(node: ast.expr) -> Iterator[ast.expr]:
    """Yields an expression with two of the names exchanged that it has once."""
    counts = Counter(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    names = sorted({name for name, count in counts.items() if count == 1} - _modules(node) - {"self"})
    for one, other in itertools.combinations(names, 2):
        now, changed = {one: other, other: one}, copy.deepcopy(node)
        for each in ast.walk(changed):
            if isinstance(each, ast.Name):
                each.id = now.get(each.id, each.id)
        yield changed


def _modules(node: ast.expr) -> set[str]:
    """Returns the names whose attributes an expression calls, such as those of modules."""
    called = (each.func.value for each in ast.walk(node) if isinstance(each, ast.Call) if hasattr(each.func, "value"))
    return {each.id for each in called if isinstance(each, ast.Name)}


def _moved_out(node: ast.expr) -> Iterator[ast.expr]:
    """Yields a call like `f(x + 1)` with its second operand outside, as `f(x) + 1`; `1 / (sqrt(x) + 1)` for `rsqrt`."""
    inside = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if isinstance(node, ast.Call) and isinstance(inside, ast.BinOp):
        yield ast.BinOp(ast.Call(node.func, [inside.left, *node.args[1:]], node.keywords), inside.op, inside.right)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "rsqrt":
            root = ast.Call(ast.Attribute(node.func.value, "sqrt", ast.Load()), [inside.left], [])
            yield ast.BinOp(ast.Constant(1), ast.Div(), ast.BinOp(root, inside.op, inside.right))


def _alike(node: ast.expr, known: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """Yields other expressions of the function with the same operator, or other parts of the same object."""

    def kind(each: ast.expr) -> str:
        part = getattr(each, "value", None) or getattr(each, "op", None)
        return f"{type(each).__name__} {ast.dump(part) if part is not None else ''}"

    read = (
        each for each in known if type(each) is type(node) and isinstance(getattr(each, "ctx", ast.Load()), ast.Load)
    )
    alike = {ast.dump(each): each for each in read if kind(each) == kind(node)}
    alike.pop(ast.dump(node), None)
    near = sorted(alike.values(), key=lambda each: abs(each.lineno - node.lineno))
    yield from near[:_MOST_ALIKE]
