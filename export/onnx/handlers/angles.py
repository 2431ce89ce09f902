"""Atan2, also where an argument is a signed zero or infinite."""

import math

from keras_pe.export.onnx.handlers.bitwise import negative
from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Atan2")
def atan2(at: Replacement) -> None:
    """The angle of a point whose height comes first."""
    at.finish(angle(at, *at.inputs))


def angle(at: Replacement, y: str, x: str) -> str:
    """Writes the angle in the first quadrant, turned into place by the two signs."""
    height, width = at.emit("Abs", y), at.emit("Abs", x)
    zero = at.constant_like(0, x)
    diagonal = at.emit("Where", at.emit("Equal", height, zero), zero, at.constant_like(math.pi / 4, x))
    steep = at.emit("Atan", at.emit("Div", height, width))
    # Where both are zero or infinite the ratio is NaN.
    first = at.emit("Where", at.emit("Equal", height, width), diagonal, steep)
    upper = at.emit("Where", negative(at, x), at.emit("Sub", at.constant_like(math.pi, x), first), first)
    return at.emit("Where", negative(at, y), at.emit("Neg", upper), upper)
