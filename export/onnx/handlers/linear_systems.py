"""Systems of linear equations whose matrix is a constant: ONNX has a product with its inverse, and no solver."""

import numpy as np

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


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
