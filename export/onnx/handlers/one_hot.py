"""OneHot, of which ONNX's own counts negative indices from the end where TensorFlow returns no hot entry."""

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("OneHot")
def one_hot(at: Replacement) -> None:
    """Compares the indices with 0, 1, ..., depth - 1 along the new axis."""
    indices, depth, on, off = at.inputs
    rank = at.rank(indices)
    axis = at.node.get_attr_value("axis", -1) % (rank + 1)
    if at.numpy_dtype(indices) not in ("int32", "int64"):
        indices = at.cast(indices, "int32")
    dtype = at.numpy_dtype(indices)
    classes = at.emit("Range", at.constant(0, dtype), at.cast(depth, dtype), at.constant(1, dtype))
    column = at.emit("Reshape", classes, at.integers(-1, *[1] * (rank - axis)))
    hot = at.emit("Equal", at.emit("Unsqueeze", indices, at.integers(axis)), column)
    if at.numpy_dtype(on).kind == "b":
        on, off = at.cast(on, "int32"), at.cast(off, "int32")
    at.finish(at.cast_like_output(at.emit("Where", hot, on, off)))
