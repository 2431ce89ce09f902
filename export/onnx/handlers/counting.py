"""What adds up in one place, where tf2onnx keeps one of it: counts, scattered rows, products with sparse matrices."""

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Bincount", "DenseBincount", since=16)
def bincount(ctx: Replacement) -> None:
    """Adds one, or the weight, at each value, and cuts off one place more for the values beyond the last."""
    x, size, weights = ctx.inputs
    dtype = ctx.numpy_dtype(ctx.outputs[0])
    size = ctx.emit("Reshape", ctx.cast(size, "int64"), ctx.integers(1))
    places = ctx.cast(x, "int64")
    places = ctx.emit("Where", ctx.emit("Less", places, size), places, size)
    shape = ctx.emit("Shape", x)
    index, total = ctx.emit("Unsqueeze", places, ctx.integers(-1)), ctx.emit("Add", size, ctx.integers(1))
    if ctx.rank(x) == 2:
        count = ctx.emit("Gather", shape, ctx.constant(0, "int64"))
        rows = ctx.emit("Range", ctx.constant(0, "int64"), count, ctx.constant(1, "int64"))
        rows = ctx.emit("Expand", ctx.emit("Reshape", rows, ctx.integers(-1, 1, 1)), ctx.emit("Shape", index))
        index = ctx.emit("Concat", rows, index, axis=-1)
        total = ctx.emit("Concat", ctx.emit("Slice", shape, ctx.integers(0), ctx.integers(1)), total, axis=0)
    is_counting = 0 in (ctx.shape(weights) or ())
    updates = ctx.emit("Expand", ctx.constant(1, dtype), shape) if is_counting else weights
    start = ctx.emit("Expand", ctx.constant(0, dtype), total)
    reduction = "none" if ctx.attribute("binary_output", False) else "add"
    filled = ctx.emit("ScatterND", start, index, updates, reduction=reduction)
    ctx.finish(ctx.emit("Slice", filled, ctx.integers(0), size, ctx.integers(-1)))


@handler("ScatterNd", since=16)
def scatter_nd(ctx: Replacement) -> None:
    """Adds the updates to zeros."""
    indices, updates, shape = ctx.inputs
    start = ctx.emit("Expand", ctx.constant_like(0, updates), ctx.cast(shape, "int64"))
    ctx.finish(ctx.emit("ScatterND", start, ctx.cast(indices, "int64"), updates, reduction="add"))


@handler("Bincount", "DenseBincount", "ScatterNd", until=15)
def refused(ctx: Replacement) -> None:
    """Opset 16 brings the scattering that adds."""
    raise ValueError(f"{ctx.operator} needs opset 16.")


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
