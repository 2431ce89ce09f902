"""Bincount and ScatterNd add up what falls on one place, where tf2onnx keeps one of it."""

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Bincount", "DenseBincount", opsets=range(16, 19))
def bincount(at: Replacement) -> None:
    """Adds one, or the weight, at each value, and cuts off one place more for the values beyond the last."""
    x, size, weights = at.inputs
    dtype = at.numpy_dtype(at.node.output[0])
    size = at.emit("Reshape", at.cast(size, "int64"), at.integers(1))
    places = at.cast(x, "int64")
    places = at.emit("Where", at.emit("Less", places, size), places, size)
    shape = at.emit("Shape", x)
    index, total = at.emit("Unsqueeze", places, at.integers(-1)), at.emit("Add", size, at.integers(1))
    if at.rank(x) == 2:
        count = at.emit("Gather", shape, at.constant(0, "int64"))
        rows = at.emit("Range", at.constant(0, "int64"), count, at.constant(1, "int64"))
        rows = at.emit("Expand", at.emit("Reshape", rows, at.integers(-1, 1, 1)), at.emit("Shape", index))
        index = at.emit("Concat", rows, index, axis=-1)
        total = at.emit("Concat", at.emit("Slice", shape, at.integers(0), at.integers(1)), total, axis=0)
    is_counting = 0 in (at.graph.get_shape(weights) or ())
    updates = at.emit("Expand", at.constant(1, dtype), shape) if is_counting else weights
    start = at.emit("Expand", at.constant(0, dtype), total)
    reduction = "none" if at.node.get_attr_value("binary_output", False) else "add"
    filled = at.emit("ScatterND", start, index, updates, reduction=reduction)
    at.finish(at.emit("Slice", filled, at.integers(0), size, at.integers(-1)))


@handler("ScatterNd", opsets=range(16, 19))
def scatter_nd(at: Replacement) -> None:
    """Adds the updates to zeros."""
    indices, updates, shape = at.inputs
    start = at.emit("Expand", at.constant_like(0, updates), at.cast(shape, "int64"))
    at.finish(at.emit("ScatterND", start, at.cast(indices, "int64"), updates, reduction="add"))


@handler("Bincount", "DenseBincount", "ScatterNd", opsets=range(15, 16))
def refused(at: Replacement) -> None:
    """Opset 16 brings the scattering that adds."""
    raise ValueError(f"{at.node.type} needs opset 16.")
