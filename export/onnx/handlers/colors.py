"""RGB to HSV and back.

Source: tensorflow/core/kernels/image/colorspace_op.h.
"""

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("RGBToHSV")
def rgb_to_hsv(ctx: Replacement) -> None:
    """The hue is counted from the strongest channel, the first of equals; that of a gray is 0."""
    (x,) = ctx.inputs
    red, green, blue = (_channel(ctx, x, index) for index in range(3))
    value = ctx.emit("Max", red, green, blue)
    spread = ctx.emit("Sub", value, ctx.emit("Min", red, green, blue))
    zero = ctx.constant_like(0, x)
    saturation = ctx.emit("Where", ctx.emit("Greater", value, zero), ctx.emit("Div", spread, value), zero)
    unit = ctx.emit("Div", ctx.constant_like(1 / 6, x), spread)
    from_red, from_green, from_blue = (
        ctx.emit("Add", ctx.emit("Mul", unit, ctx.emit("Sub", *pair)), ctx.constant_like(start, x))
        for pair, start in (((green, blue), 0), ((blue, red), 2 / 6), ((red, green), 4 / 6))
    )
    hue = ctx.emit("Where", ctx.emit("Equal", green, value), from_green, from_blue)
    hue = ctx.emit("Where", ctx.emit("Equal", red, value), from_red, hue)
    hue = ctx.emit("Where", ctx.emit("Greater", spread, zero), hue, zero)
    turned = ctx.emit("Add", hue, ctx.constant_like(1, x))
    hue = ctx.emit("Where", ctx.emit("Less", hue, zero), turned, hue)
    ctx.finish(ctx.emit("Concat", hue, saturation, value, axis=-1))


@handler("HSVToRGB")
def hsv_to_rgb(ctx: Replacement) -> None:
    """Each channel is a trapezium over the hue, drawn toward white by what lacks in saturation."""
    (x,) = ctx.inputs
    hue, saturation, value = (_channel(ctx, x, index) for index in range(3))
    sixths = ctx.emit("Mul", hue, ctx.constant_like(6, x))
    centers = ctx.constant_like([3, 2, 4], x)
    distance = ctx.emit("Abs", ctx.emit("Sub", sixths, centers))
    signs, offsets = ctx.constant_like([1, -1, -1], x), ctx.constant_like([-1, 2, 2], x)
    pure = ctx.emit("Add", ctx.emit("Mul", distance, signs), offsets)
    pure = ctx.emit("Min", ctx.emit("Max", pure, ctx.constant_like(0, x)), ctx.constant_like(1, x))
    white = ctx.emit("Sub", ctx.constant_like(1, x), saturation)
    ctx.finish(ctx.emit("Mul", ctx.emit("Add", white, ctx.emit("Mul", saturation, pure)), value))


def _channel(ctx: Replacement, x: str, index: int) -> str:
    return ctx.emit("Gather", x, ctx.integers(index), axis=-1)
