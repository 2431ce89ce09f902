"""FloorDiv and FloorMod: tf2onnx truncates those of integers and takes those of floats from a rounded quotient."""

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("FloorDiv")
def floor_div(at: Replacement) -> None:
    """The quotient that ONNX truncates, one less where a remainder has the other sign."""
    x, y = at.inputs
    quotient = at.emit("Div", x, y)
    if at.numpy_dtype(x).kind == "f":
        at.finish(at.emit("Floor", quotient))
    elif at.numpy_dtype(x).kind == "u":
        at.finish(quotient)
    else:
        floored = at.emit("Mod", x, y, fmod=0)
        truncated = at.emit("Sub", x, at.emit("Mul", quotient, y))  # not Mod with fmod=1, which ORT takes in float64
        rounds_down = at.emit("Not", at.emit("Equal", floored, truncated))
        at.finish(at.emit("Sub", quotient, at.cast_like_output(rounds_down)))


@handler("FloorMod")
def floor_mod(at: Replacement) -> None:
    """ONNX Mod, exact: of integers it has the divisor's sign, of floats the dividend's, which is then put right."""
    x, y = at.inputs
    if at.numpy_dtype(x).kind != "f":
        at.finish(at.emit("Mod", x, y, fmod=0))
        return
    remainder = at.emit("Mod", x, y, fmod=1)
    zero = at.constant_like(0, x)
    below = at.emit("Less", remainder, zero)
    differs = at.emit("Xor", below, at.emit("Less", y, zero))
    exact = at.emit("Equal", remainder, zero)
    turns = at.emit("And", differs, at.emit("Not", exact))
    at.finish(at.emit("Where", turns, at.emit("Add", remainder, y), remainder))
