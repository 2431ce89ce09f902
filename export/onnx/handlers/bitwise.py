"""The Bitcast of Keras' float argmax, argmin and signbit, and shifts: what ONNX can do with bits."""

from typing import Any

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler

_SIGN_BIT = np.iinfo("int32").min


@handler("Bitcast")
def bitcast(at: Replacement) -> None:
    """The bits of a float32, as far as only the sign bit of them is looked at: the others have no ONNX form.

    Keras masks that bit out, so a word with that bit right and the others zero gives every reader what it asked for.
    """
    (x,) = at.inputs
    readers = at.graph.find_output_consumers(at.node.output[0])
    if at.numpy_dtype(x) != np.float32 or not readers or not all(map(_reads_the_sign, readers)):
        raise ValueError("The bits of a number have no ONNX form.")
    at.finish(_sign_bit(at, negative(at, x)))


@handler("BitwiseAnd", opsets=range(15, 18))
def bitwise_and(at: Replacement) -> None:
    """Opset 18 brings BitwiseAnd; before it, the mask of the sign bit can still be written."""
    if not _reads_the_sign(at.node):
        raise ValueError("BitwiseAnd needs opset 18.")
    (x,) = (name for name, node in zip(at.inputs, at.node.inputs, strict=True) if not node.is_const())
    at.finish(_sign_bit(at, at.emit("Less", x, at.constant_like(0, x))))


@handler("RightShift")
def right_shift(at: Replacement) -> None:
    """Shifts the complement of a negative number, because ONNX shifts unsigned integers only: x >> n = ~(~x >> n)."""
    x, bits = at.inputs
    below = at.emit("Less", x, at.constant_like(0, x))
    folded = at.cast(at.emit("Where", below, _complement(at, x), x), "uint64")
    shifted = at.cast_like_output(at.emit("BitShift", folded, at.cast(bits, "uint64"), direction="RIGHT"))
    at.finish(at.emit("Where", below, _complement(at, shifted), shifted))


def negative(at: Replacement, x: str) -> str:
    """Writes the sign bit of a float: true for -0, false for NaN."""
    zero = at.constant_like(0, x)
    return at.emit("Or", at.emit("Less", x, zero), at.emit("Less", at.emit("Reciprocal", x), zero))


def _sign_bit(at: Replacement, is_negative: str) -> str:
    return at.emit("Where", is_negative, at.constant(_SIGN_BIT, "int32"), at.constant(0, "int32"))


def _complement(at: Replacement, x: str) -> str:
    return at.emit("Sub", at.constant_like(-1, x), x)


def _reads_the_sign(reader: Any) -> bool:
    constants = [node.get_tensor_value() for node in reader.inputs if node.is_const()]
    return reader.type == "BitwiseAnd" and constants == [_SIGN_BIT]
