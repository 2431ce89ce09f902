"""Sparse matrices, which TensorFlow holds as the indices, the values and the shape of what is not zero."""

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("SparseTensorDenseMatMul", since=16)
def sparse_times_dense(ctx: Replacement) -> None:
    """Values times rows of the dense matrix, added to rows of the product. Opset 16 brings scattering that adds."""
    indices, values, shape, dense = ctx.inputs
    row, column = (1, 0) if ctx.attribute("adjoint_a", 0) else (0, 1)
    if ctx.attribute("adjoint_b", 0):
        dense = ctx.emit("Transpose", dense, perm=[1, 0])
    taken = ctx.emit("Gather", dense, _column(ctx, indices, column), axis=0)
    products = ctx.emit("Mul", taken, ctx.emit("Unsqueeze", values, ctx.integers(1)))
    rows = ctx.emit("Gather", ctx.cast(shape, "int64"), ctx.integers(row))
    columns = ctx.emit("Shape", dense, start=1)
    zeros = ctx.emit("Expand", ctx.constant_like(0, dense), ctx.emit("Concat", rows, columns, axis=0))
    places = ctx.emit("Unsqueeze", _column(ctx, indices, row), ctx.integers(1))
    ctx.finish(ctx.emit("ScatterND", zeros, places, products, reduction="add"))


@handler("SparseToDense")
def to_dense(ctx: Replacement) -> None:
    """The values in their places, another everywhere else."""
    indices, shape, values, default = ctx.inputs
    filled = ctx.emit("Expand", default, ctx.cast(shape, "int64"))
    if ctx.rank(indices) < 2 or ctx.rank(values) == 0:
        raise ValueError("SparseToDense has an ONNX form only of one value for each index, of a matrix of indices.")
    ctx.finish(ctx.emit("ScatterND", filled, ctx.cast(indices, "int64"), values))


def _column(ctx: Replacement, indices: str, number: int) -> str:
    """Writes one column of the indices."""
    return ctx.emit("Gather", ctx.cast(indices, "int64"), ctx.constant(number, "int64"), axis=1)
