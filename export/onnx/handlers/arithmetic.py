"""Numbers one by one, where tf2onnx loses digits, NaN or signs: division, logarithms, exponentials, angles and bits."""

import math

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler

_SIGN_BIT = np.iinfo("int32").min


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
