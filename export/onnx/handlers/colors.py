"""RGB to HSV and back.

Source: tensorflow/core/kernels/image/colorspace_op.h.
"""

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("RGBToHSV")
def rgb_to_hsv(at: Replacement) -> None:
    """The hue is counted from the strongest channel, the first of equals; that of a grey is 0."""
    (x,) = at.inputs
    red, green, blue = (_channel(at, x, index) for index in range(3))
    value = at.emit("Max", red, green, blue)
    spread = at.emit("Sub", value, at.emit("Min", red, green, blue))
    zero = at.constant_like(0, x)
    saturation = at.emit("Where", at.emit("Greater", value, zero), at.emit("Div", spread, value), zero)
    unit = at.emit("Div", at.constant_like(1 / 6, x), spread)
    from_red, from_green, from_blue = (
        at.emit("Add", at.emit("Mul", unit, at.emit("Sub", *pair)), at.constant_like(start, x))
        for pair, start in (((green, blue), 0), ((blue, red), 2 / 6), ((red, green), 4 / 6))
    )
    hue = at.emit("Where", at.emit("Equal", green, value), from_green, from_blue)
    hue = at.emit("Where", at.emit("Equal", red, value), from_red, hue)
    hue = at.emit("Where", at.emit("Greater", spread, zero), hue, zero)
    turned = at.emit("Add", hue, at.constant_like(1, x))
    hue = at.emit("Where", at.emit("Less", hue, zero), turned, hue)
    at.finish(at.emit("Concat", hue, saturation, value, axis=-1))


@handler("HSVToRGB")
def hsv_to_rgb(at: Replacement) -> None:
    """Each channel is a trapezium over the hue, drawn towards white by what lacks in saturation."""
    (x,) = at.inputs
    hue, saturation, value = (_channel(at, x, index) for index in range(3))
    sixths = at.emit("Mul", hue, at.constant_like(6, x))
    centres = at.constant_like([3, 2, 4], x)
    distance = at.emit("Abs", at.emit("Sub", sixths, centres))
    signs, offsets = at.constant_like([1, -1, -1], x), at.constant_like([-1, 2, 2], x)
    pure = at.emit("Add", at.emit("Mul", distance, signs), offsets)
    pure = at.emit("Min", at.emit("Max", pure, at.constant_like(0, x)), at.constant_like(1, x))
    white = at.emit("Sub", at.constant_like(1, x), saturation)
    at.finish(at.emit("Mul", at.emit("Add", white, at.emit("Mul", saturation, pure)), value))


def _channel(at: Replacement, x: str, index: int) -> str:
    return at.emit("Gather", x, at.integers(index), axis=-1)
