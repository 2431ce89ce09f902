"""Handlers of contractions, and of linear equations with a constant matrix."""

import numpy as np

from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler


@handler("Einsum")
def contraction(ctx: Replacement, *operands: str) -> str:
    """Writes one Einsum, with lower-case letters as labels. tf2onnx 1.17 confuses the labels `A` and `a`."""
    equation = ctx.attribute("equation").replace(" ", "")
    labels = dict.fromkeys(label for label in equation if label.isalpha())
    if len(labels) > 26:
        raise ValueError(f"an equation of {len(labels)} labels is not supported")
    letters = {label: chr(ord("a") + i) for i, label in enumerate(labels)}
    return ctx.emit("Einsum", *operands, equation="".join(letters.get(each, each) for each in equation))


@handler("MatrixSolve")
def solve(ctx: Replacement, matrix: str, right: str) -> str:
    """Writes the product with the inverse of the matrix."""
    return _solution(ctx, ctx.constant_value(matrix), right)


@handler("MatrixTriangularSolve")
def solve_triangular(ctx: Replacement, matrix: str, right: str) -> str:
    """Writes the product with the inverse of the triangle. The other entries of the matrix are ignored."""
    triangle = np.tril if ctx.attribute("lower", 1) else np.triu
    return _solution(ctx, triangle(ctx.constant_value(matrix)), right)


def _solution(ctx: Replacement, matrix: np.ndarray, right: str) -> str:
    """Writes the solution. The inverse is computed in float64 and rounded once."""
    inverse = np.linalg.inv(matrix.astype("float64"))
    if ctx.attribute("adjoint", 0):
        inverse = np.swapaxes(inverse, -1, -2)
    return ctx.emit("MatMul", ctx.constant_like(inverse, right), right)
