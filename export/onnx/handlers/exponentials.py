"""Log in every precision; Expm1, Log1p and Erfc, accurate where exp(x) - 1 and log(1 + x) lose every digit."""

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Log")
def log(at: Replacement) -> None:
    """The same operator: tf2onnx rounds a double to float32 before, and has no form for float16."""
    at.finish(at.emit("Log", *at.inputs))


@handler("Expm1")
def expm1(at: Replacement) -> None:
    """exp(x) - 1 = tanh(x / 2) * (exp(x) + 1): nothing cancels, and both ends, -1 and infinity, come out."""
    (x,) = at.inputs
    half = at.emit("Mul", x, at.constant_like(0.5, x))
    plus_one = at.emit("Add", at.emit("Exp", x), at.constant_like(1, x))
    at.finish(at.emit("Mul", at.emit("Tanh", half), plus_one))


@handler("Log1p")
def log1p(at: Replacement) -> None:
    """log(u) * x / (u - 1) with u = 1 + x: the rounding of u cancels (Higham, Accuracy and Stability, problem 1.5)."""
    (x,) = at.inputs
    one = at.constant_like(1, x)
    u = at.emit("Add", one, x)
    rounded = at.emit("Sub", u, one)
    log = at.emit("Log", u)
    corrected = at.emit("Div", at.emit("Mul", log, x), rounded)
    tiny = at.emit("Equal", rounded, at.constant_like(0, x))
    exact = at.emit("Equal", rounded, x)  # infinity too, where the correction would be infinity / infinity
    at.finish(at.emit("Where", tiny, x, at.emit("Where", exact, log, corrected)))


@handler("Erfc")
def erfc(at: Replacement) -> None:
    """1 - erf(x): right to the rounding of 1, not relative to the tail, which ONNX offers nothing for."""
    (x,) = at.inputs
    at.finish(at.emit("Sub", at.constant_like(1, x), at.emit("Erf", x)))
