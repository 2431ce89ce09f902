"""`Einsum` of two tensors as one MatMul.

tf2onnx 1.17 makes some forty operators of each, most of which compute shapes, takes seconds to choose them by trying,
and reads `A` and `a` in an equation as one letter.
"""

import math
from collections.abc import Sequence

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Einsum")
def contraction(ctx: Replacement) -> None:
    """A MatMul where there are two operands, each with labels of its own; else what tf2onnx writes."""
    terms = _terms(ctx.attribute("equation"))
    ctx.set_attribute("equation", f"{','.join(terms[:-1])}->{terms[-1]}")
    if not _is_contraction(terms) or not _replace(ctx, *terms):
        ctx.leave_to_tf2onnx()


def _terms(equation: str) -> list[str]:
    """Returns the operands' labels, then the output's, as lower-case letters that are used for one label each."""
    sides, _, output = equation.replace(" ", "").partition("->")
    labels = dict.fromkeys(label for label in sides if label.isalpha())
    letters = {label: chr(ord("a") + i) for i, label in enumerate(labels)}
    if len(letters) > 26:
        raise ValueError(f"an equation of {len(letters)} labels is not supported")
    return ["".join(letters.get(label, label) for label in term) for term in (*sides.split(","), output)]


def _is_contraction(terms: Sequence[str]) -> bool:
    if len(terms) != 3 or any("." in term or len(set(term)) < len(term) for term in terms):
        return False
    left, right, output = (set(term) for term in terms)
    # Each operand has labels of its own, all of them in the output; something is contracted.
    return bool(left - right and right - left and (left & right) - output) and left ^ right <= output


def _replace(ctx: Replacement, left: str, right: str, output: str) -> bool:
    """Writes the MatMul, unless it would take sizes that are not known."""
    first, second = ctx.inputs
    sizes = _sizes(ctx, first, left) | _sizes(ctx, second, right)
    rows = [label for label in output if label not in right]
    columns = [label for label in output if label not in left]
    if output.index(columns[0]) < output.index(rows[0]):  # the operand whose labels come first in the output goes first
        first, second, left, right, rows, columns = second, first, right, left, columns, rows
    batch = [label for label in output if label in left and label in right]
    inner = [label for label in left if label in right and label not in output]
    if batch and len(rows) > 1:
        groups_left, groups_right = [[x] for x in batch] + [rows, inner], [[x] for x in batch] + [inner, columns]
        kept = len(batch)
    else:  # without a batch, or with one row label, the leading dimensions stay as they are
        groups_left = [[x] for x in (*batch, *rows)] + [inner]
        groups_right = [[x] for x in batch] + [inner, columns]
        kept = len(batch) + (len(rows) if not batch else 1)
    result = [*batch, *rows, *columns]
    split = [0] * kept + [sizes.get(label, -1) for label in result[kept:]]
    if split.count(-1) > 1 or not (_can_merge(groups_left, sizes) and _can_merge(groups_right, sizes)):
        return False
    product = ctx.emit(
        "MatMul",
        _merged(ctx, _transposed(ctx, first, left, groups_left), groups_left, sizes),
        _merged(ctx, _transposed(ctx, second, right, groups_right), groups_right, sizes),
    )
    if len(split) > kept + 1:
        product = ctx.emit("Reshape", product, ctx.integers(*split))
    ctx.finish(_transposed(ctx, product, "".join(result), [[label] for label in output]))
    return True


def _sizes(ctx: Replacement, tensor: str, labels: str) -> dict[str, int]:
    shape = ctx.shape(tensor) or []
    return {label: size for label, size in zip(labels, shape, strict=False) if size is not None and size >= 0}


def _can_merge(groups: list[list[str]], sizes: dict[str, int]) -> bool:
    """A Reshape takes one size that it finds itself, and copies those of the leading dimensions that stay."""
    if all(len(group) == 1 for group in groups):
        return True
    leading = next(i for i, group in enumerate(groups) if len(group) > 1)
    return sum(any(label not in sizes for label in group) for group in groups[leading:]) <= 1


def _transposed(ctx: Replacement, tensor: str, labels: str, groups: list[list[str]]) -> str:
    order = [labels.index(label) for group in groups for label in group]
    return tensor if order == sorted(order) else ctx.emit("Transpose", tensor, perm=order)


def _merged(ctx: Replacement, tensor: str, groups: list[list[str]], sizes: dict[str, int]) -> str:
    if all(len(group) == 1 for group in groups):
        return tensor
    leading = next(i for i, group in enumerate(groups) if len(group) > 1)
    merged = [
        math.prod(sizes[label] for label in group) if all(label in sizes for label in group) else -1
        for group in groups[leading:]
    ]
    return ctx.emit("Reshape", tensor, ctx.integers(*[0] * leading, *merged))


@handler("MatrixSolve")
def solve(ctx: Replacement) -> None:
    """The product with the inverse."""
    _multiply(ctx, ctx.constant_value(ctx.inputs[0]))


@handler("MatrixTriangularSolve")
def solve_triangular(ctx: Replacement) -> None:
    """The same; what stands on the other side of the diagonal is not read."""
    matrix = ctx.constant_value(ctx.inputs[0])
    _multiply(ctx, np.tril(matrix) if ctx.attribute("lower", 1) else np.triu(matrix))


def _multiply(ctx: Replacement, matrix: np.ndarray) -> None:
    """Writes the solution. The inverse is rounded once, as the solution is that a solver returns."""
    inverse = np.linalg.inv(matrix.astype("float64"))
    if ctx.attribute("adjoint", 0):
        inverse = np.swapaxes(inverse, -1, -2)
    right = ctx.inputs[1]
    ctx.finish(ctx.emit("MatMul", ctx.constant_like(inverse, right), right))
