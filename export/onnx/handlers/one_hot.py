"""OneHot, of which ONNX's own counts negative indices from the end where TensorFlow returns no hot entry."""

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("OneHot")
def one_hot(ctx: Replacement) -> None:
    """Compares the indices with 0, 1, ..., depth - 1 along the new axis."""
    indices, depth, on, off = ctx.inputs
    rank = ctx.rank(indices)
    axis = ctx.attribute("axis", -1) % (rank + 1)
    if ctx.numpy_dtype(indices) not in ("int32", "int64"):
        indices = ctx.cast(indices, "int32")
    dtype = ctx.numpy_dtype(indices)
    classes = ctx.emit("Range", ctx.constant(0, dtype), ctx.cast(depth, dtype), ctx.constant(1, dtype))
    column = ctx.emit("Reshape", classes, ctx.integers(-1, *[1] * (rank - axis)))
    hot = ctx.emit("Equal", ctx.emit("Unsqueeze", indices, ctx.integers(axis)), column)
    if ctx.numpy_dtype(on).kind == "b":
        on, off = ctx.cast(on, "int32"), ctx.cast(off, "int32")
    ctx.finish(ctx.cast_like_output(ctx.emit("Where", hot, on, off)))
