"""The Bitcast of Keras' float argmax, argmin and signbit, and shifts: what ONNX can do with bits."""

import numpy as np

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement

_SIGN_BIT = np.iinfo("int32").min


@handler("Bitcast")
def bitcast(ctx: Replacement) -> None:
    """The bits of a float32, as far as only the sign bit of them is looked at: the others have no ONNX form.

    Keras masks that bit out, so a word with that bit right and the others zero gives every reader what it asked for.
    """
    (x,) = ctx.inputs
    readers = ctx.readers()
    if ctx.numpy_dtype(x) != np.float32 or not readers or not all(map(_reads_the_sign, readers)):
        raise ValueError("The bits of a number have no ONNX form.")
    ctx.finish(_sign_bit(ctx, negative(ctx, x)))


@handler("BitwiseAnd", until=17)
def bitwise_and(ctx: Replacement) -> None:
    """Opset 18 brings BitwiseAnd; before it, the mask of the sign bit can still be written."""
    if not _reads_the_sign(ctx):
        raise ValueError("BitwiseAnd needs opset 18.")
    (x,) = (name for name in ctx.inputs if ctx.value(name) is None)
    ctx.finish(_sign_bit(ctx, ctx.emit("Less", x, ctx.constant_like(0, x))))


@handler("RightShift")
def right_shift(ctx: Replacement) -> None:
    """Shifts the complement of a negative number, because ONNX shifts unsigned integers only: x >> n = ~(~x >> n)."""
    x, bits = ctx.inputs
    below = ctx.emit("Less", x, ctx.constant_like(0, x))
    folded = ctx.cast(ctx.emit("Where", below, _complement(ctx, x), x), "uint64")
    shifted = ctx.cast_like_output(ctx.emit("BitShift", folded, ctx.cast(bits, "uint64"), direction="RIGHT"))
    ctx.finish(ctx.emit("Where", below, _complement(ctx, shifted), shifted))


def negative(ctx: Replacement, x: str) -> str:
    """Writes the sign bit of a float: true for -0, false for NaN."""
    zero = ctx.constant_like(0, x)
    return ctx.emit("Or", ctx.emit("Less", x, zero), ctx.emit("Less", ctx.emit("Reciprocal", x), zero))


def _sign_bit(ctx: Replacement, is_negative: str) -> str:
    return ctx.emit("Where", is_negative, ctx.constant(_SIGN_BIT, "int32"), ctx.constant(0, "int32"))


def _complement(ctx: Replacement, x: str) -> str:
    return ctx.emit("Sub", ctx.constant_like(-1, x), x)


def _reads_the_sign(reader: Replacement) -> bool:
    constants = [value for name in reader.inputs if (value := reader.value(name)) is not None]
    return reader.operator == "BitwiseAnd" and [value.tolist() for value in constants] == [_SIGN_BIT]
