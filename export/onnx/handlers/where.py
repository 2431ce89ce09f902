"""Select as ONNX Where: tf2onnx multiplies by the condition, and a NaN of the branch not taken comes through."""

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("Select", "SelectV2")
def select(ctx: Replacement) -> None:
    """Where, through int32 for the element types that ONNX Runtime has no Where for."""
    condition, x, y = ctx.inputs
    if ctx.operator == "Select" and ctx.rank(condition) == 1 and ctx.rank(x) > 1:
        condition = ctx.emit("Reshape", condition, ctx.integers(-1, *[1] * (ctx.rank(x) - 1)))
    if ctx.numpy_dtype(x) not in ("bool", "int16", "uint16"):
        ctx.finish(ctx.emit("Where", condition, x, y))
    else:
        ctx.finish(ctx.cast_like_output(ctx.emit("Where", condition, ctx.cast(x, "int32"), ctx.cast(y, "int32"))))
