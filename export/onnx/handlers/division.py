"""FloorDiv and FloorMod: tf2onnx truncates those of integers and takes those of floats from a rounded quotient."""

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("FloorDiv")
def floor_div(ctx: Replacement) -> None:
    """The quotient that ONNX truncates, one less where a remainder has the other sign."""
    x, y = ctx.inputs
    quotient = ctx.emit("Div", x, y)
    if ctx.numpy_dtype(x).kind == "f":
        ctx.finish(ctx.emit("Floor", quotient))
    elif ctx.numpy_dtype(x).kind == "u":
        ctx.finish(quotient)
    else:
        floored = ctx.emit("Mod", x, y, fmod=0)
        truncated = ctx.emit("Sub", x, ctx.emit("Mul", quotient, y))  # not Mod with fmod=1, which ORT takes in float64
        rounds_down = ctx.emit("Not", ctx.emit("Equal", floored, truncated))
        ctx.finish(ctx.emit("Sub", quotient, ctx.cast_like_output(rounds_down)))


@handler("FloorMod")
def floor_mod(ctx: Replacement) -> None:
    """ONNX Mod, exact: of integers it has the divisor's sign, of floats the dividend's, which is then put right."""
    x, y = ctx.inputs
    if ctx.numpy_dtype(x).kind != "f":
        ctx.finish(ctx.emit("Mod", x, y, fmod=0))
        return
    remainder = ctx.emit("Mod", x, y, fmod=1)
    zero = ctx.constant_like(0, x)
    below = ctx.emit("Less", remainder, zero)
    differs = ctx.emit("Xor", below, ctx.emit("Less", y, zero))
    exact = ctx.emit("Equal", remainder, zero)
    turns = ctx.emit("And", differs, ctx.emit("Not", exact))
    ctx.finish(ctx.emit("Where", turns, ctx.emit("Add", remainder, y), remainder))
