"""Special functions by approximations as good as float32: the inverse of erf, the Bessel function I0."""

from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Chebyshev

from keras_pe.export.onnx.handlers.replacement import Replacement, handler

# Giles, Approximating the erfinv function (GPU Computing Gems, Jade edition, 2011), table 5: polynomials in w - 2.5
# where w < 5, and in sqrt(w) - 3 beyond, the highest power first.
_CENTER = [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087]
_CENTER += [-0.00125372503, -0.00417768164, 0.246640727, 1.50140941]
_TAIL = [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773]
_TAIL += [-0.0076224613, 0.00943887047, 1.00167406, 2.83297682]

# Chebyshev series of what is left of I0, from NumPy's in float64, to 2e-8 of it: of exp(-x) I0(x) in x, and of
# sqrt(x) exp(-x) I0(x) in u = 1 / x.
_NEAR = Chebyshev.interpolate(lambda x: np.exp(-x) * np.i0(x), 17, domain=[0, 8]).coef.tolist()
_FAR = Chebyshev.interpolate(lambda u: np.exp(-1 / u) * np.i0(1 / u) / np.sqrt(u), 6, domain=[0, 1 / 8]).coef.tolist()


@handler("Erfinv")
def erfinv(ctx: Replacement) -> None:
    """The inverse of erf at 2 q - 1, where q = (x + 1) / 2 is rounded as in TensorFlow, which decides next to 1."""
    x = _float32(ctx)
    one, zero = ctx.constant_like(1, x), ctx.constant_like(0, x)
    q = ctx.emit("Mul", ctx.emit("Add", x, one), ctx.constant_like(0.5, x))
    p = ctx.emit("Sub", one, q)
    w = ctx.emit("Neg", ctx.emit("Log", ctx.emit("Mul", ctx.emit("Mul", p, q), ctx.constant_like(4, x))))
    center = _polynomial(ctx, ctx.emit("Sub", w, ctx.constant_like(2.5, x)), _CENTER)
    tail = _polynomial(ctx, ctx.emit("Sub", ctx.emit("Sqrt", w), ctx.constant_like(3, x)), _TAIL)
    slope = ctx.emit("Where", ctx.emit("Less", w, ctx.constant_like(5, x)), center, tail)
    slope = ctx.emit("Where", ctx.emit("Equal", ctx.emit("Mul", p, q), zero), ctx.constant_like(np.inf, x), slope)
    ctx.finish(ctx.cast_like_output(ctx.emit("Mul", slope, ctx.emit("Sub", ctx.emit("Add", q, q), one))))


@handler("BesselI0")
def bessel_i0(ctx: Replacement) -> None:
    """exp(x) times a series in x up to 8, and one in 1 / x over sqrt(x) beyond, as Cephes has it (i0f.c)."""
    x = ctx.emit("Abs", _float32(ctx))
    eight, one = ctx.constant_like(8, x), ctx.constant_like(1, x)
    power = ctx.emit("Exp", x)
    place = ctx.emit("Sub", ctx.emit("Mul", x, ctx.constant_like(1 / 4, x)), one)
    near = ctx.emit("Mul", power, _series(ctx, place, _NEAR))
    place = ctx.emit("Sub", ctx.emit("Div", ctx.constant_like(16, x), x), one)
    far = ctx.emit("Div", ctx.emit("Mul", power, _series(ctx, place, _FAR)), ctx.emit("Sqrt", x))
    ctx.finish(ctx.cast_like_output(ctx.emit("Where", ctx.emit("Greater", x, eight), far, near)))


def _float32(ctx: Replacement) -> str:
    (x,) = ctx.inputs
    if ctx.numpy_dtype(x) == np.float64:
        raise ValueError("in float64 it has no approximation that is as good")
    return ctx.cast(x, "float32")


def _polynomial(ctx: Replacement, x: str, coefficients: Sequence[float]) -> str:
    """Writes a polynomial, the coefficient of the highest power first."""
    value = ctx.constant_like(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = ctx.emit("Add", ctx.emit("Mul", value, x), ctx.constant_like(coefficient, x))
    return value


def _series(ctx: Replacement, x: str, coefficients: Sequence[float]) -> str:
    """Writes a Chebyshev series, the constant first, by Clenshaw's recurrence."""
    double = ctx.emit("Add", x, x)
    value = before = ctx.constant_like(0, x)
    for coefficient in coefficients[:0:-1]:
        following = ctx.emit("Sub", ctx.emit("Mul", double, value), before)
        before, value = value, ctx.emit("Add", following, ctx.constant_like(coefficient, x))
    rest = ctx.emit("Sub", ctx.constant_like(coefficients[0], x), before)
    return ctx.emit("Add", ctx.emit("Mul", x, value), rest)
