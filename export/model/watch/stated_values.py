"""The statements of user code that compute a value which an operation is given, such as a constant of a module."""

import ast
import contextlib
import itertools
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from keras_pe.export.model.watch.code_places import CodePlace, syntax_tree
from keras_pe.export.model.watch.operations import Key, Operation

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_MOST_STEPS = 8  # names that lead from one value to the next
_CASTS = frozenset({"astype", "copy", "tolist"})  # methods that keep the values
_NUMBERS = frozenset({"float", "int"})  # functions that keep a number
_LEFT = frozenset({"x", "x1", "a"})  # the first operand of an operator, in TensorFlow and Keras
# The methods of a variable for an operator whose second operand it is.
_REFLECTED = frozenset(f"__r{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"))


def stating_places(operation: Operation, key: Key, part: int | None = None) -> tuple[CodePlace, ...]:
    """Returns the places that may compute an argument of an operation.

    They are other statements if the call names the value, as in `x * self.scale`. In `x * (d // 2)`, it is the
    operation. A user's function that returns the value may be at fault as well. Sizes of tensors are taken as right.

    Args:
        operation: The operation.
        key: The position of the argument, or its keyword.
        part: The number of a part of the argument, which is an index.
    """
    own = operation.place
    with contextlib.suppress(SyntaxError):
        value = _argument(ast.parse(own.operation, mode="eval").body, operation, key)
        if part is not None and isinstance(value, ast.Tuple):
            value = value.elts[part]
        ends = [value.lower, value.upper] if isinstance(value, ast.Slice) else [value]
        named = [each for each in ends if each is not None and not isinstance(each, ast.Constant)]
        scope = _Scope.of(own, operation.callers)
        found = [list(dict.fromkeys(scope.stating(each))) for each in named]
        if found and all(found):
            common = [place for place in found[0] if all(place in each for each in found)]
            return tuple(common[:1] if len(found) > 1 and common else dict.fromkeys(itertools.chain(*found)))
        return (own, *itertools.chain.from_iterable(scope.called_functions(each) for each in named))
    return (own,)


def named_parameter(operation: Operation, key: Key) -> str | None:
    """Returns the parameter of the outermost function that an argument of an operation names; None without one."""
    with contextlib.suppress(SyntaxError):
        value = _argument(ast.parse(operation.place.operation, mode="eval").body, operation, key)
        scope = _Scope.of(operation.place, operation.callers)
        function = next(iter(scope.around), None)
        if isinstance(value, ast.Name) and isinstance(function, _Function) and not scope.callers:
            made = [each for each, _ in _assignments(function, value.id) if each.lineno < scope.line]
            return value.id if value.id in _parameters(function) and not made else None
    return None


def _argument(expression: ast.expr, operation: Operation, key: Key) -> ast.expr | None:
    """Returns the expression of an argument."""
    names = operation.parameters
    name = names[key] if isinstance(key, int) and key < len(names) else key
    if isinstance(expression, ast.Call):
        is_method = names[:1] == ("self",)
        return _find_given(expression, key - is_method if isinstance(key, int) else None, str(name))
    is_reflected = getattr(operation.function, "__name__", "") in _REFLECTED
    is_left = name in _LEFT or name == ("other" if is_reflected else "self")
    if isinstance(expression, ast.BinOp):
        return expression.left if is_left else expression.right
    if isinstance(expression, ast.Compare):
        return expression.left if is_left else expression.comparators[0]
    return expression.slice if isinstance(expression, ast.Subscript) else None


def _find_given(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    """Returns the expression that a call passes at a position or by a name."""
    by_name = next((each.value for each in call.keywords if each.arg == name), None)
    if by_name is not None or position is None or any(isinstance(each, ast.Starred) for each in call.args):
        return by_name
    return call.args[position] if 0 <= position < len(call.args) else None


@dataclass(frozen=True)
class _Scope:
    """The code around a line, in which an expression has its names.

    Attributes:
        file: The file.
        line: The line.
        around: The functions and classes around the line, the innermost first.
        callers: The calls that led to the innermost function, the innermost first; empty if they are not known.
        steps: The number of names that may still be followed.
    """

    file: str
    line: int
    around: Sequence[_Function | ast.ClassDef]
    callers: Sequence[CodePlace] = ()
    steps: int = _MOST_STEPS

    @classmethod
    def of(cls, place: CodePlace, callers: Sequence[CodePlace] = ()) -> "_Scope":
        """Returns the scope of a place."""
        around = [
            node
            for node in ast.walk(syntax_tree(place.file))
            if isinstance(node, _Function | ast.ClassDef) and node.lineno <= place.line <= (node.end_lineno or 0)
        ]
        # A comprehension is called by its own function.
        outside = itertools.dropwhile(lambda each: each.function == place.function, callers)
        return cls(place.file, place.line, sorted(around, key=lambda node: -node.lineno), tuple(outside))

    def stating(self, value: ast.expr | None) -> Iterator[CodePlace]:
        """Yields the places that may compute the value of a name; nothing for another expression."""
        inner = replace(self, steps=self.steps - 1)
        if self.steps == 0:
            return
        if isinstance(value, ast.Name):
            yield from inner.stating_name(value.id)
        elif isinstance(value, ast.Subscript) and not _is_size(value) and not _is_part(value.slice):
            yield from inner.stating(value.value)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _CASTS:
            yield from inner.stating(value.func.value)
        elif isinstance(value, ast.Call) and ast.unparse(value.func) in _NUMBERS and len(value.args) == 1:
            yield from inner.stating(value.args[0])
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
            yield from inner.stating_attribute(value.attr)

    def stating_name(self, name: str) -> Iterator[CodePlace]:
        """Yields the places that may compute the value of a variable, parameter or constant."""
        for number, node in enumerate(self.around):
            if not isinstance(node, _Function):
                continue
            made = [each for each in _assignments(node, name) if number or each[0].lineno < self.line]
            if made:
                for statement, value in made:
                    yield from self.computing(statement, value)
                return
            if name in (arguments := _parameters(node)):
                yield from self.stating_parameter(node, arguments.index(name), name) if not number else ()
                return
        module = replace(self, around=(), callers=())
        for statement, value in _assignments(syntax_tree(self.file), name):
            yield from module.computing(statement, value)

    def stating_parameter(self, function: _Function, position: int, name: str) -> Iterator[CodePlace]:
        """Yields the places that compute an argument of the innermost function."""
        if not self.callers:
            return
        caller, *around = self.callers
        call = ast.parse(caller.operation, mode="eval").body
        if not isinstance(call, ast.Call):
            return
        is_method = _parameters(function)[:1] == ["self"]
        given = _find_given(call, position - is_method, name)
        if given is not None:
            found = list(replace(_Scope.of(caller, around), steps=self.steps).stating(given))
            yield from found or [caller]
        elif (default := _defaults(function).get(name)) is not None:
            yield self._place(default)

    def stating_attribute(self, name: str) -> Iterator[CodePlace]:
        """Yields the places that compute an attribute of the object whose method this is."""
        for owner in (each for each in self.around if isinstance(each, ast.ClassDef)):
            for method in (each for each in owner.body if isinstance(each, _Function)):
                scope = replace(self, around=(method, owner), callers=(), line=method.end_lineno or 0)
                for statement, value in _assignments(method, f"self.{name}"):
                    yield from scope.computing(statement, value)

    def computing(self, statement: ast.stmt | ast.expr, value: ast.expr) -> Iterator[CodePlace]:
        """Yields a statement that computes a value, and the places that compute parts of the value."""
        if _is_size(value) or getattr(value, "elts", None) == []:  # other statements append to an empty list
            return
        if found := list(self.stating(value)):
            yield from found
            yield from [] if isinstance(value, ast.Name | ast.Attribute) else [self._place(statement)]
            return
        if isinstance(value, ast.Name | ast.Attribute):  # an argument of the constructor, whose call is not known
            return
        yield self._place(statement)
        yield from self.called_functions(value)
        given = {name for each in self.around if isinstance(each, _Function) for name in _parameters(each)}
        for part in ast.walk(value):
            is_given = isinstance(part, ast.Name) and part.id in given
            if part is not value and isinstance(part, ast.Name | ast.Attribute) and not is_given:
                yield from self.stating(part)

    def called_functions(self, value: ast.expr) -> Iterator[CodePlace]:
        """Yields the functions of the module that an expression calls."""
        calls = (each.func for each in ast.walk(value) if isinstance(each, ast.Call))
        names = {each.id for each in calls if isinstance(each, ast.Name)}
        for function in syntax_tree(self.file).body:
            if isinstance(function, _Function) and function.name in names:
                yield self._place(function)

    def _place(self, node: ast.stmt | ast.expr) -> CodePlace:
        names = [each.name for each in reversed(self.around) if isinstance(each, _Function | ast.ClassDef)]
        lines = linecache.getlines(self.file)
        text = ast.get_source_segment("".join(lines), node) or ""
        if isinstance(node, _Function):
            text = f"def {node.name}"
        return CodePlace(
            self.file, node.lineno, ".".join(names[-2:]) or "<module>", " ".join(text.split()), node.col_offset
        )


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a function or module without those of functions and classes in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, _Scoped):
            yield node
            yield from _own_nodes(node)


def _assignments(scope: ast.AST, name: str) -> list[tuple[ast.stmt | ast.expr, ast.expr]]:
    """Returns the statements of a function or module that set a name, each with the value."""
    found = list[tuple[ast.stmt | ast.expr, ast.expr]]()
    for node in _own_nodes(scope):
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.For) and isinstance(table := _table_of_loop(node.iter), ast.Name | ast.Attribute):
            parts = [node.target] if table is node.iter else getattr(node.target, "elts", [])
            targets, value = parts[-1:], table
        else:
            continue
        found += [(node, each) for target in targets for each in _values_for(target, value, name)]
    return found


def _table_of_loop(value: ast.expr) -> ast.expr:
    """Returns what a loop iterates over, without `enumerate`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "enumerate" and value.args:
        return value.args[0]
    return value


def _values_for(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    """Yields what an assignment gives a name: the value, or the part of a tuple at the same place."""
    if isinstance(target, ast.Tuple | ast.List):
        is_split = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        parts = value.elts if is_split else [value] * len(target.elts)  # type: ignore[attr-defined]
        for own, part in zip(target.elts, parts, strict=True):
            yield from _values_for(own, part, name)
    elif ast.unparse(target) == name:
        yield value


def _parameters(function: _Function) -> list[str]:
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _defaults(function: _Function) -> dict[str, ast.expr | None]:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    last = names[len(names) - len(given.defaults) :]
    return dict(zip(last, given.defaults, strict=True)) | {
        each.arg: default for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    }


def _is_part(index: ast.expr) -> bool:
    """Whether an index selects or orders the values of an axis."""
    parts = (each for each in ast.walk(index) if isinstance(each, ast.Slice))
    return any(each.lower or each.upper or each.step for each in parts)


def _is_size(value: ast.expr) -> bool:
    """Whether a value is the size of a tensor, or all sizes."""
    while isinstance(value, ast.Subscript | ast.Call):
        value = value.value if isinstance(value, ast.Subscript) else value.func
    return (value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")) == "shape"
