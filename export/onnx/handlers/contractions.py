"""`Einsum` of two tensors as one MatMul, or as a Mul where nothing is summed.

tf2onnx 1.17 makes some forty operators of each, most of which compute shapes, takes seconds to choose them by trying,
and reads `A` and `a` in an equation as one letter.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Einsum")
def contraction(ctx: Replacement, *operands: str) -> str | None:
    """A MatMul of two operands that have labels of their own, a Mul of two of which nothing is summed."""
    terms = _terms(ctx.attribute("equation"))
    ctx.set_attribute("equation", f"{','.join(terms[:-1])}->{terms[-1]}")
    product = None
    if len(terms) == 3 and not any("." in term or len(set(term)) < len(term) for term in terms):
        left, right, output = (set(term) for term in terms)
        # Each operand has labels of its own, all of them in the output; something is contracted.
        if left - right and right - left and (left & right) - output and left ^ right <= output:
            product = _product(ctx, operands, terms)
        elif left | right == output:
            product = ctx.emit(
                "Mul", *(_as_output(ctx, *each, terms[2]) for each in zip(operands, terms, strict=False))
            )
    if product is None:
        ctx.leave_to_tf2onnx()
    return product


def _terms(equation: str) -> list[str]:
    """Returns the operands' labels, then the output's, as lower-case letters that are used for one label each."""
    sides, _, output = equation.replace(" ", "").partition("->")
    labels = dict.fromkeys(label for label in sides if label.isalpha())
    letters = {label: chr(ord("a") + i) for i, label in enumerate(labels)}
    if len(letters) > 26:
        raise ValueError(f"an equation of {len(letters)} labels is not supported")
    return ["".join(letters.get(label, label) for label in term) for term in (*sides.split(","), output)]


def _as_output(ctx: Replacement, tensor: str, labels: str, output: str) -> str:
    """Returns a tensor with its axes in the order of the output, and one of size 1 for each that it has not."""
    groups = [[label] for label in output if label in labels]
    missing = [axis for axis, label in enumerate(output) if label not in labels]
    turned = _transposed(ctx, tensor, labels, groups)
    return ctx.emit("Unsqueeze", turned, missing) if missing else turned


def _product(ctx: Replacement, tensors: Sequence[str], terms: Sequence[str]) -> str | None:
    """Writes the MatMul, unless several sizes that are not known would be merged into one axis."""
    (first, second), (left, right, output) = tensors, terms
    rows = [label for label in output if label not in right]
    columns = [label for label in output if label not in left]
    if output.index(columns[0]) < output.index(rows[0]):  # the operand whose labels come first in the output goes first
        first, second, left, right, rows, columns = second, first, right, left, columns, rows
    sizes = _Sizes(ctx, [(first, left), (second, right)])
    shared = [label for label in output if label in left and label in right]
    inner = [label for label in left if label in right and label not in output]
    if shared and sizes.product(inner) > sizes.product(columns):
        rows.sort(key=left.index)  # the operand is larger than the result: that is turned
    batch = [[label] for label in shared]
    merged = [rows] if shared else [[label] for label in rows]  # without a batch the leading axes stay as they are
    operands = [(first, left, [*batch, *merged, inner]), (second, right, [*batch, inner, columns])]
    if any(sum(len(group) > 1 and not sizes.are_known(group) for group in groups) > 1 for _, _, groups in operands):
        return None
    operator, factored = _factors(ctx, first, second)
    factors = [
        _reshaped(ctx, _transposed(ctx, tensor, labels, groups), groups, sizes, is_merged=True)
        for tensor, (_, labels, groups) in zip(factored, operands, strict=True)
    ]
    product = _reshaped(ctx, ctx.emit(operator, *factors), [*batch, *merged, columns], sizes, is_merged=False)
    turned = _transposed(ctx, product, "".join((*shared, *rows, *columns)), [[label] for label in output])
    return turned if operator == "MatMul" else ctx.cast_like_output(turned)


def _factors(ctx: Replacement, first: str, second: str) -> tuple[str, list[str]]:
    """Returns the operator of a product, and what it takes: the integers of a quantized layer and of its weight.

    TensorFlow contracts them as floats. What is no weight stays floats: ONNX Runtime multiplies signed integers slowly.
    """
    integers = [ctx.before_cast(tensor) for tensor in (first, second)]
    if all(ctx.numpy_dtype(tensor) == "int8" for tensor in integers) and ctx.is_given(integers[1]):
        return "MatMulInteger", integers
    return "MatMul", [first, second]


class _Sizes:
    """The sizes that labels stand for: numbers, or read from an operand while the file runs."""

    def __init__(self, ctx: Replacement, operands: Sequence[tuple[str, str]]) -> None:
        self._ctx = ctx
        self._places = {label: (tensor, axis) for tensor, labels in operands for axis, label in enumerate(labels)}
        self._known = {
            label: size
            for tensor, labels in operands
            for label, size in zip(labels, ctx.shape(tensor) or [], strict=False)
            if size >= 0
        }

    def product(self, labels: Iterable[str]) -> float:
        """Returns the number of entries along these axes, infinite where it is not known."""
        return math.prod(self._known.get(label, math.inf) for label in labels)

    def are_known(self, labels: Iterable[str]) -> bool:
        """Whether each of the sizes is known."""
        return self.product(labels) < math.inf

    def vector(self, leading: int, groups: Sequence[Sequence[str]]) -> str | list[int]:
        """Writes the shape of a Reshape that keeps the leading axes, and then has one for each group."""
        unknown = [group for group in groups if not self.are_known(group)]
        found = max(unknown, key=len, default=None)  # by the Reshape itself
        parts: list[int | str] = [0] * leading
        for group in groups:
            parts.append(
                int(self.product(group)) if group not in unknown else -1 if group is found else self._asked(*group)
            )
        numbers = [part for part in parts if isinstance(part, int)]
        if len(numbers) == len(parts):
            return numbers
        return self._ctx.emit("Concat", *(part if isinstance(part, str) else [part] for part in parts), axis=0)

    def _asked(self, label: str) -> str:
        tensor, axis = self._places[label]
        return self._ctx.emit("Shape", tensor, start=axis, end=axis + 1)


def _transposed(ctx: Replacement, tensor: str, labels: str, groups: list[list[str]]) -> str:
    order = [labels.index(label) for group in groups for label in group]
    return tensor if order == sorted(order) else ctx.emit("Transpose", tensor, perm=order)


def _reshaped(ctx: Replacement, tensor: str, groups: list[list[str]], sizes: _Sizes, *, is_merged: bool) -> str:
    """Returns a tensor with one axis for each group instead of each label, or the other way round."""
    leading = next((i for i, group in enumerate(groups) if len(group) > 1), None)
    if leading is None:
        return tensor
    rest = groups[leading:]
    axes = rest if is_merged else [[label] for group in rest for label in group]
    return ctx.emit("Reshape", tensor, sizes.vector(leading, axes))


@handler("MatrixSolve")
def solve(ctx: Replacement, matrix: str, right: str) -> str:
    """The product with the inverse."""
    return _solution(ctx, ctx.constant_value(matrix), right)


@handler("MatrixTriangularSolve")
def solve_triangular(ctx: Replacement, matrix: str, right: str) -> str:
    """The same; what stands on the other side of the diagonal is not read."""
    triangle = np.tril if ctx.attribute("lower", 1) else np.triu
    return _solution(ctx, triangle(ctx.constant_value(matrix)), right)


def _solution(ctx: Replacement, matrix: np.ndarray, right: str) -> str:
    """Writes the solution. The inverse is rounded once, as the solution is that a solver returns."""
    inverse = np.linalg.inv(matrix.astype("float64"))
    if ctx.attribute("adjoint", 0):
        inverse = np.swapaxes(inverse, -1, -2)
    return ctx.emit("MatMul", ctx.constant_like(inverse, right), right)
