"""Atan2, also where an argument is a signed zero or infinite."""

import math

from keras_pe.export.onnx.handlers.bitwise import negative
from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("Atan2")
def atan2(ctx: Replacement) -> None:
    """The angle of a point whose height comes first."""
    ctx.finish(angle(ctx, *ctx.inputs))


def angle(ctx: Replacement, y: str, x: str) -> str:
    """Writes the angle in the first quadrant, turned into place by the two signs."""
    height, width = ctx.emit("Abs", y), ctx.emit("Abs", x)
    zero = ctx.constant_like(0, x)
    diagonal = ctx.emit("Where", ctx.emit("Equal", height, zero), zero, ctx.constant_like(math.pi / 4, x))
    steep = ctx.emit("Atan", ctx.emit("Div", height, width))
    # Where both are zero or infinite the ratio is NaN.
    first = ctx.emit("Where", ctx.emit("Equal", height, width), diagonal, steep)
    upper = ctx.emit("Where", negative(ctx, x), ctx.emit("Sub", ctx.constant_like(math.pi, x), first), first)
    return ctx.emit("Where", negative(ctx, y), ctx.emit("Neg", upper), upper)
