"""Log in every precision; Expm1, Log1p and Erfc, accurate where exp(x) - 1 and log(1 + x) lose every digit."""

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("Log")
def log(ctx: Replacement) -> None:
    """The same operator: tf2onnx rounds a double to float32 before, and has no form for float16."""
    ctx.finish(ctx.emit("Log", *ctx.inputs))


@handler("Expm1")
def expm1(ctx: Replacement) -> None:
    """exp(x) - 1 = tanh(x / 2) * (exp(x) + 1): nothing cancels, and both ends, -1 and infinity, come out."""
    (x,) = ctx.inputs
    half = ctx.emit("Mul", x, ctx.constant_like(0.5, x))
    plus_one = ctx.emit("Add", ctx.emit("Exp", x), ctx.constant_like(1, x))
    ctx.finish(ctx.emit("Mul", ctx.emit("Tanh", half), plus_one))


@handler("Log1p")
def log1p(ctx: Replacement) -> None:
    """log(u) * x / (u - 1) with u = 1 + x: the rounding of u cancels (Higham, Accuracy and Stability, problem 1.5)."""
    (x,) = ctx.inputs
    one = ctx.constant_like(1, x)
    u = ctx.emit("Add", one, x)
    rounded = ctx.emit("Sub", u, one)
    log = ctx.emit("Log", u)
    corrected = ctx.emit("Div", ctx.emit("Mul", log, x), rounded)
    tiny = ctx.emit("Equal", rounded, ctx.constant_like(0, x))
    exact = ctx.emit("Equal", rounded, x)  # infinity too, where the correction would be infinity / infinity
    ctx.finish(ctx.emit("Where", tiny, x, ctx.emit("Where", exact, log, corrected)))


@handler("Erfc")
def erfc(ctx: Replacement) -> None:
    """1 - erf(x): right to the rounding of 1, not relative to the tail, which ONNX offers nothing for."""
    (x,) = ctx.inputs
    ctx.finish(ctx.emit("Sub", ctx.constant_like(1, x), ctx.emit("Erf", x)))
