"""Element-wise functions that tf2onnx converts inexactly or not at all: division, logarithms, angles, bits."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Chebyshev

from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler


@handler("FloorDiv")
def floor_div(ctx: Replacement, x: str, y: str) -> str:
    """Writes the floor of the quotient, because ONNX truncates the quotient of integers."""
    quotient = ctx.emit("Div", x, y)
    if ctx.numpy_dtype(x).kind == "f":
        return ctx.emit("Floor", quotient)
    if ctx.numpy_dtype(x).kind == "u":
        return quotient
    floored = ctx.emit("Mod", x, y, fmod=0)
    truncated = ctx.emit("Sub", x, ctx.emit("Mul", quotient, y))  # ORT computes Mod with fmod=1 in float64
    rounds_down = ctx.emit("Not", ctx.emit("Equal", floored, truncated))
    return ctx.emit("Sub", quotient, ctx.cast_like_output(rounds_down))


@handler("FloorMod")
def floor_mod(ctx: Replacement, x: str, y: str) -> str:
    """Writes Mod. Its result for floats has the dividend's sign, so the divisor is added if the signs differ."""
    if ctx.numpy_dtype(x).kind != "f":
        return ctx.emit("Mod", x, y, fmod=0)
    remainder = ctx.emit("Mod", x, y, fmod=1)
    below = ctx.emit("Less", remainder, 0)
    differs = ctx.emit("Xor", below, ctx.emit("Less", y, 0))
    exact = ctx.emit("Equal", remainder, 0)
    turns = ctx.emit("And", differs, ctx.emit("Not", exact))
    return ctx.emit("Where", turns, ctx.emit("Add", remainder, y), remainder)


@handler("Greater", "GreaterEqual", "Less", "LessEqual")
def compare(ctx: Replacement, x: str, y: str) -> str:
    """Compares integers as integers: tf2onnx compares them as float32, which rounds integers beyond 2**24.

    Arguments of a graph are compared in int64, because tf2onnx later changes the counter of a loop to int64.
    """
    dtype = ctx.numpy_dtype(x)
    if dtype.kind != "f" and (dtype != np.int32 or any(map(ctx.is_argument, (x, y)))):
        wide = "int64" if dtype != np.uint64 else "float32"
        x, y = (ctx.cast(each, wide) for each in (x, y))
    return ctx.emit(ctx.operator.replace("Equal", "OrEqual"), x, y)


@handler("Log")
def log(ctx: Replacement, x: str) -> str:
    """Writes Log in the type of its input: tf2onnx rounds a double to float32 and does not convert float16."""
    return ctx.emit("Log", x)


@handler("Expm1")
def expm1(ctx: Replacement, x: str) -> str:
    """exp(x) - 1 = tanh(x / 2) * (exp(x) + 1): nothing cancels, and both limits, -1 and infinity, are exact."""
    half = ctx.emit("Mul", x, 0.5)
    plus_one = ctx.emit("Add", ctx.emit("Exp", x), 1)
    return ctx.emit("Mul", ctx.emit("Tanh", half), plus_one)


@handler("Log1p")
def log1p(ctx: Replacement, x: str) -> str:
    """log(u) * x / (u - 1) with u = 1 + x: the rounding of u cancels (Higham, Accuracy and Stability, problem 1.5)."""
    u = ctx.emit("Add", 1, x)
    rounded = ctx.emit("Sub", u, 1)
    log = ctx.emit("Log", u)
    corrected = ctx.emit("Div", ctx.emit("Mul", log, x), rounded)
    tiny = ctx.emit("Equal", rounded, 0)
    exact = ctx.emit("Equal", rounded, x)  # true of infinity too, whose correction would be NaN
    return ctx.emit("Where", tiny, x, ctx.emit("Where", exact, log, corrected))


@handler("Erfc")
def erfc(ctx: Replacement, x: str) -> str:
    """Writes 1 - erf(x), whose absolute error is a rounding of 1. ONNX has no operator that is exact in the tail."""
    return ctx.emit("Sub", 1, ctx.emit("Erf", x))


@handler("RightShift")
def right_shift(ctx: Replacement, x: str, bits: str) -> str:
    """Shifts the complement of a negative number, because ONNX shifts unsigned integers only: x >> n = ~(~x >> n)."""
    below = ctx.emit("Less", x, 0)
    folded = ctx.cast(ctx.emit("Where", below, _complement(ctx, x), x), "uint64")
    shifted = ctx.cast_like_output(ctx.emit("BitShift", folded, ctx.cast(bits, "uint64"), direction="RIGHT"))
    return ctx.emit("Where", below, _complement(ctx, shifted), shifted)


def negative(ctx: Replacement, x: str) -> str:
    """Writes the sign bit of a float: true for -0, false for NaN."""
    return ctx.emit("Or", ctx.emit("Less", x, 0), ctx.emit("Less", ctx.emit("Reciprocal", x), 0))


def _complement(ctx: Replacement, x: str) -> str:
    return ctx.emit("Sub", -1, x)


@handler("Atan2")
def angle(ctx: Replacement, y: str, x: str) -> str:
    """Writes the angle of the absolute coordinates, reflected into the quadrant of the signs; y comes before x."""
    height, width = ctx.emit("Abs", y), ctx.emit("Abs", x)
    diagonal = ctx.emit("Where", ctx.emit("Equal", height, 0), ctx.constant_like(0, x), math.pi / 4)
    steep = ctx.emit("Atan", ctx.emit("Div", height, width))
    # The ratio is NaN if both are zero or both are infinite.
    first = ctx.emit("Where", ctx.emit("Equal", height, width), diagonal, steep)
    upper = ctx.emit("Where", negative(ctx, x), ctx.emit("Sub", math.pi, first), first)
    return ctx.emit("Where", negative(ctx, y), ctx.emit("Neg", upper), upper)


# Source: Giles, Approximating the erfinv function (GPU Computing Gems, Jade edition, 2011), table 5. The polynomials
# are in w - 2.5 if w < 5, else in sqrt(w) - 3. The coefficient of the highest power comes first.
_CENTER = [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087]
_CENTER += [-0.00125372503, -0.00417768164, 0.246640727, 1.50140941]
_TAIL = [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773]
_TAIL += [-0.0076224613, 0.00943887047, 1.00167406, 2.83297682]

# Chebyshev series of exp(-x) I0(x) in x, and of sqrt(x) exp(-x) I0(x) in u = 1 / x. They interpolate NumPy's I0 in
# float64; their relative error is 2e-8.
_NEAR = Chebyshev.interpolate(lambda x: np.exp(-x) * np.i0(x), 17, domain=[0, 8]).coef.tolist()
_FAR = Chebyshev.interpolate(lambda u: np.exp(-1 / u) * np.i0(1 / u) / np.sqrt(u), 6, domain=[0, 1 / 8]).coef.tolist()


@handler("Erfinv")
def erfinv(ctx: Replacement, x: str) -> str:
    """Writes the inverse of erf at 2 q - 1. Near 1 the result depends on q = (x + 1) / 2, which TensorFlow rounds."""
    x = _float32(ctx, x)
    q = ctx.emit("Mul", ctx.emit("Add", x, 1), 0.5)
    p = ctx.emit("Sub", 1, q)
    w = ctx.emit("Neg", ctx.emit("Log", ctx.emit("Mul", ctx.emit("Mul", p, q), 4)))
    center = polynomial(ctx, ctx.emit("Sub", w, 2.5), _CENTER)
    tail = polynomial(ctx, ctx.emit("Sub", ctx.emit("Sqrt", w), 3), _TAIL)
    slope = ctx.emit("Where", ctx.emit("Less", w, 5), center, tail)
    slope = ctx.emit("Where", ctx.emit("Equal", ctx.emit("Mul", p, q), 0), np.inf, slope)
    return ctx.cast_like_output(ctx.emit("Mul", slope, ctx.emit("Sub", ctx.emit("Add", q, q), 1)))


@handler("BesselI0")
def bessel_i0(ctx: Replacement, x: str) -> str:
    """Writes exp(x) times a series in x up to 8, and a series in 1 / x over sqrt(x) beyond 8, as in Cephes (i0f.c)."""
    x = ctx.emit("Abs", _float32(ctx, x))
    power = ctx.emit("Exp", x)
    place = ctx.emit("Sub", ctx.emit("Mul", x, 1 / 4), 1)
    near = ctx.emit("Mul", power, _series(ctx, place, _NEAR))
    place = ctx.emit("Sub", ctx.emit("Div", 16, x), 1)
    far = ctx.emit("Div", ctx.emit("Mul", power, _series(ctx, place, _FAR)), ctx.emit("Sqrt", x))
    return ctx.cast_like_output(ctx.emit("Where", ctx.emit("Greater", x, 8), far, near))


def _float32(ctx: Replacement, x: str) -> str:
    if ctx.numpy_dtype(x) == np.float64:
        raise ValueError("it has no approximation of float64 precision")
    return ctx.cast(x, "float32")


def polynomial(ctx: Replacement, x: str, coefficients: Sequence[float]) -> str:
    """Writes a polynomial, the coefficient of the highest power first."""
    value = ctx.constant_like(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = ctx.emit("Add", ctx.emit("Mul", value, x), coefficient)
    return value


def _series(ctx: Replacement, x: str, coefficients: Sequence[float]) -> str:
    """Writes a Chebyshev series, the constant first, by Clenshaw's recurrence."""
    double = ctx.emit("Add", x, x)
    value = before = ctx.constant_like(0, x)
    for coefficient in coefficients[:0:-1]:
        following = ctx.emit("Sub", ctx.emit("Mul", double, value), before)
        before, value = value, ctx.emit("Add", following, coefficient)
    rest = ctx.emit("Sub", coefficients[0], before)
    return ctx.emit("Add", ctx.emit("Mul", x, value), rest)
