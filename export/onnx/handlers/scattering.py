"""Sums of values with one index, of which tf2onnx keeps one: counts, scattered rows, segments, sparse matrices."""

import numpy as np

from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler


def scatter(ctx: Replacement, shape: str, places: str, updates: str, reduction: str = "add", start: float = 0) -> str:
    """Writes a tensor of this shape with updates at some positions, and a constant elsewhere."""
    filled = ctx.emit("Expand", ctx.constant_like(start, updates), shape)
    return ctx.emit("ScatterND", filled, places, updates, reduction=reduction)


def count_values(ctx: Replacement, shape: str, places: str, number: str, size: str, axis: int) -> str:
    """Writes how often each position is named, or the sum of its weights.

    Args:
        ctx: An operator that counts. Its last input is the weights, which is empty if each position counts once.
        shape: The shape of the counts, with one more entry along the axis for positions that are out of range.
        places: The positions. The last axis holds the indices of one position.
        number: The shape of the weights.
        size: The number of counts along the axis.
        axis: The axis of the counts.
    """
    weights, dtype = ctx.inputs[-1], ctx.numpy_dtype(ctx.outputs[0])
    if 0 in (ctx.shape(weights) or ()):
        weights = ctx.emit("Expand", ctx.constant(1, dtype), number)
    reduction = "none" if ctx.attribute("binary_output", False) else "add"
    sums = scatter(ctx, shape, places, weights, reduction)
    return ctx.emit("Slice", sums, [0], size, [axis])


@handler("Bincount", "DenseBincount", since=16, is_refused_before=True)
def bincount(ctx: Replacement, x: str, size: str, _: str) -> str:
    """Adds one, or the weight, at each value. One more entry collects the values out of range and is cut off."""
    size = ctx.emit("Reshape", ctx.cast(size, "int64"), [1])
    places = ctx.cast(x, "int64")
    places = ctx.emit("Where", ctx.emit("Less", places, size), places, size)
    number = ctx.emit("Shape", x)
    index, shape = ctx.emit("Unsqueeze", places, [-1]), ctx.emit("Add", size, [1])
    if ctx.rank(x) == 2:
        count = ctx.emit("Gather", number, ctx.constant(0, "int64"))
        rows = ctx.emit("Range", 0, count, 1)
        rows = ctx.emit("Expand", ctx.emit("Reshape", rows, [-1, 1, 1]), ctx.emit("Shape", index))
        index = ctx.emit("Concat", rows, index, axis=-1)
        shape = ctx.emit("Concat", ctx.emit("Slice", number, [0], [1]), shape, axis=0)
    return count_values(ctx, shape, index, number, size, axis=-1)


@handler("ScatterNd", since=16, is_refused_before=True)
def scatter_nd(ctx: Replacement, places: str, updates: str, shape: str) -> str:
    """Adds the updates to zeros."""
    return scatter(ctx, ctx.cast(shape, "int64"), ctx.cast(places, "int64"), updates)


@handler("SparseTensorDenseMatMul", since=16)
def sparse_times_dense(ctx: Replacement, indices: str, values: str, shape: str, dense: str) -> str:
    """Multiplies values by rows of the dense matrix, and adds them to rows of the product, which needs opset 16."""
    row, column = (1, 0) if ctx.attribute("adjoint_a", 0) else (0, 1)
    if ctx.attribute("adjoint_b", 0):
        dense = ctx.emit("Transpose", dense, perm=[1, 0])
    taken = ctx.emit("Gather", dense, _column(ctx, indices, column), axis=0)
    products = ctx.emit("Mul", taken, ctx.emit("Unsqueeze", values, [1]))
    rows = ctx.emit("Gather", ctx.cast(shape, "int64"), [row])
    whole = ctx.emit("Concat", rows, ctx.emit("Shape", dense, start=1), axis=0)
    return scatter(ctx, whole, ctx.emit("Unsqueeze", _column(ctx, indices, row), [1]), products)


def _column(ctx: Replacement, indices: str, number: int) -> str:
    """Writes one column of the indices."""
    return ctx.emit("Gather", ctx.cast(indices, "int64"), ctx.constant(number, "int64"), axis=1)


@handler("UnsortedSegmentSum", "UnsortedSegmentProd", since=16)
@handler("UnsortedSegmentMax", "UnsortedSegmentMin", since=18, is_refused_before=True)
def reduce_segments(ctx: Replacement, data: str, segments: str, count: str) -> str:
    """Scatters rows to their segments. An empty segment has the largest finite number, but infinity in tf2onnx.

    Opset 16 adds the reductions "add" and "mul" of ScatterND, and opset 18 adds "max" and "min".
    """
    dtype = ctx.numpy_dtype(data)
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    reduction, neutral = {
        "UnsortedSegmentSum": ("add", 0),
        "UnsortedSegmentProd": ("mul", 1),
        "UnsortedSegmentMax": ("max", limits.min),
        "UnsortedSegmentMin": ("min", limits.max),
    }[ctx.operator]
    count = ctx.emit("Reshape", ctx.cast(count, "int64"), [1])
    # A negative segment is dropped: one more row collects its values and is cut off.
    dropped = ctx.emit("Less", segments, 0)
    rows = ctx.emit("Where", dropped, count, ctx.cast(segments, "int64"))
    inner = ctx.emit("Slice", ctx.emit("Shape", data), [ctx.rank(segments)], [ctx.rank(data)])
    shape = ctx.emit("Concat", ctx.emit("Add", count, [1]), inner, axis=0)
    index = ctx.emit("Unsqueeze", rows, [-1])
    return ctx.emit("Slice", scatter(ctx, shape, index, data, reduction, neutral), [0], count)
