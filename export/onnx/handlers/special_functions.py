"""Special functions by approximations as good as float32: the inverse of erf, the Bessel function I0."""

from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Chebyshev

from keras_pe.export.onnx.handlers.replacement import Replacement, handler

# Giles, Approximating the erfinv function (GPU Computing Gems, Jade edition, 2011), table 5: polynomials in w - 2.5
# where w < 5, and in sqrt(w) - 3 beyond, the highest power first.
_CENTRE = [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087]
_CENTRE += [-0.00125372503, -0.00417768164, 0.246640727, 1.50140941]
_TAIL = [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773]
_TAIL += [-0.0076224613, 0.00943887047, 1.00167406, 2.83297682]

# Chebyshev series of what is left of I0, from NumPy's in float64, to 2e-8 of it: of exp(-x) I0(x) in x, and of
# sqrt(x) exp(-x) I0(x) in u = 1 / x.
_NEAR = Chebyshev.interpolate(lambda x: np.exp(-x) * np.i0(x), 17, domain=[0, 8]).coef.tolist()
_FAR = Chebyshev.interpolate(lambda u: np.exp(-1 / u) * np.i0(1 / u) / np.sqrt(u), 6, domain=[0, 1 / 8]).coef.tolist()


@handler("Erfinv")
def erfinv(at: Replacement) -> None:
    """The inverse of erf at 2 q - 1, where q = (x + 1) / 2 is rounded as in TensorFlow, which decides next to 1."""
    x = _float32(at)
    one, zero = at.constant_like(1, x), at.constant_like(0, x)
    q = at.emit("Mul", at.emit("Add", x, one), at.constant_like(0.5, x))
    p = at.emit("Sub", one, q)
    w = at.emit("Neg", at.emit("Log", at.emit("Mul", at.emit("Mul", p, q), at.constant_like(4, x))))
    centre = _polynomial(at, at.emit("Sub", w, at.constant_like(2.5, x)), _CENTRE)
    tail = _polynomial(at, at.emit("Sub", at.emit("Sqrt", w), at.constant_like(3, x)), _TAIL)
    slope = at.emit("Where", at.emit("Less", w, at.constant_like(5, x)), centre, tail)
    slope = at.emit("Where", at.emit("Equal", at.emit("Mul", p, q), zero), at.constant_like(np.inf, x), slope)
    at.finish(at.cast_like_output(at.emit("Mul", slope, at.emit("Sub", at.emit("Add", q, q), one))))


@handler("BesselI0")
def bessel_i0(at: Replacement) -> None:
    """exp(x) times a series in x up to 8, and one in 1 / x over sqrt(x) beyond, as Cephes has it (i0f.c)."""
    x = at.emit("Abs", _float32(at))
    eight, one = at.constant_like(8, x), at.constant_like(1, x)
    power = at.emit("Exp", x)
    place = at.emit("Sub", at.emit("Mul", x, at.constant_like(1 / 4, x)), one)
    near = at.emit("Mul", power, _series(at, place, _NEAR))
    place = at.emit("Sub", at.emit("Div", at.constant_like(16, x), x), one)
    far = at.emit("Div", at.emit("Mul", power, _series(at, place, _FAR)), at.emit("Sqrt", x))
    at.finish(at.cast_like_output(at.emit("Where", at.emit("Greater", x, eight), far, near)))


def _float32(at: Replacement) -> str:
    (x,) = at.inputs
    if at.numpy_dtype(x) == np.float64:
        raise ValueError("in float64 it has no approximation that is as good")
    return at.cast(x, "float32")


def _polynomial(at: Replacement, x: str, coefficients: Sequence[float]) -> str:
    """Writes a polynomial, the coefficient of the highest power first."""
    value = at.constant_like(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = at.emit("Add", at.emit("Mul", value, x), at.constant_like(coefficient, x))
    return value


def _series(at: Replacement, x: str, coefficients: Sequence[float]) -> str:
    """Writes a Chebyshev series, the constant first, by Clenshaw's recurrence."""
    double = at.emit("Add", x, x)
    value = before = at.constant_like(0, x)
    for coefficient in coefficients[:0:-1]:
        following = at.emit("Sub", at.emit("Mul", double, value), before)
        before, value = value, at.emit("Add", following, at.constant_like(coefficient, x))
    rest = at.emit("Sub", at.constant_like(coefficients[0], x), before)
    return at.emit("Add", at.emit("Mul", x, value), rest)
