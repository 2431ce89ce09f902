"""Select as ONNX Where: tf2onnx multiplies by the condition, and a NaN of the branch not taken comes through."""

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Select", "SelectV2")
def select(at: Replacement) -> None:
    """Where, through int32 for the element types that ONNX Runtime has no Where for."""
    condition, x, y = at.inputs
    if at.node.type == "Select" and at.rank(condition) == 1 and at.rank(x) > 1:
        condition = at.emit("Reshape", condition, at.integers(-1, *[1] * (at.rank(x) - 1)))
    if at.numpy_dtype(x) not in ("bool", "int16", "uint16"):
        at.finish(at.emit("Where", condition, x, y))
    else:
        at.finish(at.cast_like_output(at.emit("Where", condition, at.cast(x, "int32"), at.cast(y, "int32"))))
