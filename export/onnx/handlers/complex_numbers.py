"""Complex tensors as pairs: a last axis of two holds the real and the imaginary part, as ONNX's own DFT takes them.

TensorFlow declares such a tensor without that axis, so no handler of real tensors may meet one: it would take the wrong
axis in silence. Before the conversion `mark_complex` therefore renames each operator that takes or returns complex
numbers, and only those that a handler here or in `spectra` knows by the new name are converted.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from keras_pe.export.onnx.handlers.angles import angle
from keras_pe.export.onnx.handlers.replacement import Replacement, handler
from keras_pe.export.onnx.refusals import OF_COMPLEX

_PARTS = {TensorProto.COMPLEX64: TensorProto.FLOAT, TensorProto.COMPLEX128: TensorProto.DOUBLE}


def mark_complex(graph: Any, nodes: list[Any]) -> list[Any]:
    """Renames the operators of complex numbers; tf2onnx calls it last before the handlers, for each graph."""
    for node in nodes:
        if not node.is_const() and any(graph.get_dtype(name) in _PARTS for name in (*node.input, *node.output)):
            node.type += OF_COMPLEX
    return nodes


def complex_handler(*operators: str) -> Callable[[Callable[[Replacement], None]], Any]:
    """Registers a function as the handler of TensorFlow operators where they take or return complex numbers."""
    return handler(*(f"{operator}{OF_COMPLEX}" for operator in operators))


def as_pairs(at: Replacement, name: str) -> str:
    """Returns a complex input as pairs. A constant is still as TensorFlow has it."""
    node = at.graph.get_node_by_output(name)
    if node is None or not node.is_const():
        return name
    value = np.asarray(node.get_tensor_value(as_list=False))
    return at.constant(np.stack([value.real, value.imag], axis=-1), value.real.dtype)


def join(at: Replacement, real: str, imaginary: str) -> str:
    """Writes the pairs of two real tensors."""
    last = at.integers(-1)
    return at.emit("Concat", at.emit("Unsqueeze", real, last), at.emit("Unsqueeze", imaginary, last), axis=-1)


def part(at: Replacement, pairs: str, index: int) -> str:
    """Writes the real (0) or the imaginary (1) part of pairs."""
    return at.emit("Gather", pairs, at.constant(index, "int64"), axis=-1)


def times(at: Replacement, first: str, second: str) -> str:
    """Writes the product of pairs."""
    (a, b), (c, d) = ((part(at, pairs, 0), part(at, pairs, 1)) for pairs in (first, second))
    real = at.emit("Sub", at.emit("Mul", a, c), at.emit("Mul", b, d))
    return join(at, real, at.emit("Add", at.emit("Mul", a, d), at.emit("Mul", b, c)))


def finish_pairs(at: Replacement, pairs: str) -> None:
    """Puts pairs in the place of the TensorFlow node and declares them as what they are."""
    (output,) = at.node.output
    shape = at.graph.get_shape(output)
    at.graph.set_shape(output, None if shape is None else [*shape, 2])
    at.graph.set_dtype(output, _PARTS[at.graph.get_dtype(output)])
    at.finish(pairs)


@complex_handler("Complex")
def complex_of_parts(at: Replacement) -> None:
    """Two real tensors of one shape: TensorFlow would broadcast them, Keras does not ask it to."""
    real, imaginary = at.inputs
    shapes = zip(at.graph.get_shape(real), at.graph.get_shape(imaginary), strict=True)
    if any(size != other and 1 in (size, other) for size, other in shapes):
        raise ValueError("A real and an imaginary part of unlike shapes have no ONNX form.")
    finish_pairs(at, join(at, real, imaginary))


@complex_handler("Cast")
def cast(at: Replacement) -> None:
    """A real tensor as a complex one; Keras never casts back."""
    (x,), (output,) = at.inputs, at.node.output
    if at.rank(x) != at.rank(output):  # it has the last axis of pairs, or returns real numbers
        raise ValueError("Only a real tensor can be cast to a complex one.")
    real = at.emit("Cast", x, to=_PARTS[at.graph.get_dtype(output)])
    finish_pairs(at, join(at, real, at.emit("Expand", at.constant_like(0, real), at.emit("Shape", real))))


@complex_handler("Real")
def real_part(at: Replacement) -> None:
    """The first of each pair."""
    at.finish(part(at, as_pairs(at, at.inputs[0]), 0))


@complex_handler("Imag")
def imaginary_part(at: Replacement) -> None:
    """The second of each pair."""
    at.finish(part(at, as_pairs(at, at.inputs[0]), 1))


@complex_handler("ComplexAbs")
def absolute(at: Replacement) -> None:
    """The length of each pair, over its longer side, so that no square overflows or vanishes."""
    pairs = as_pairs(at, at.inputs[0])
    first, second = (at.emit("Abs", part(at, pairs, index)) for index in (0, 1))
    longer = at.emit("Max", first, second)
    positive = at.emit("Greater", longer, at.constant_like(0, longer))
    finite = at.emit("Less", longer, at.constant_like(np.inf, longer))
    unit = at.emit("Where", at.emit("And", positive, finite), longer, at.constant_like(1, longer))
    first, second = (at.emit("Div", side, unit) for side in (first, second))
    squares = at.emit("Add", at.emit("Mul", first, first), at.emit("Mul", second, second))
    at.finish(at.emit("Mul", unit, at.emit("Sqrt", squares)))


@complex_handler("Angle")
def argument(at: Replacement) -> None:
    """The angle of each pair."""
    pairs = as_pairs(at, at.inputs[0])
    at.finish(angle(at, part(at, pairs, 1), part(at, pairs, 0)))


@complex_handler("Conj")
def conjugate(at: Replacement) -> None:
    """The second of each pair with the other sign."""
    pairs = as_pairs(at, at.inputs[0])
    finish_pairs(at, at.emit("Mul", pairs, at.constant_like([1, -1], pairs)))


@complex_handler("AddV2")
def add(at: Replacement) -> None:
    """Sums of pairs. Broadcasting aligns the last axes, so the shapes need not have one rank."""
    first, second = (as_pairs(at, name) for name in at.inputs)
    finish_pairs(at, at.emit("Add", first, second))


@complex_handler("Mul")
def multiply(at: Replacement) -> None:
    """Products of pairs."""
    first, second = (as_pairs(at, name) for name in at.inputs)
    finish_pairs(at, times(at, first, second))


@complex_handler("Identity")
def identity(at: Replacement) -> None:
    """The same pairs."""
    finish_pairs(at, as_pairs(at, at.inputs[0]))


@complex_handler("Shape")
def shape(at: Replacement) -> None:
    """The shape without the axis of the pairs."""
    whole = at.emit("Shape", as_pairs(at, at.inputs[0]))
    at.finish(at.cast_like_output(at.emit("Slice", whole, at.integers(0), at.integers(-1))))


@complex_handler("Pad")
def pad(at: Replacement) -> None:
    """Zeros around, and none beside a pair."""
    x, paddings = at.inputs
    by_axis = at.emit("Concat", at.cast(paddings, "int64"), at.constant([[0, 0]], "int64"), axis=0)
    befores_then_afters = at.emit("Reshape", at.emit("Transpose", by_axis, perm=[1, 0]), at.integers(-1))
    finish_pairs(at, at.emit("Pad", as_pairs(at, x), befores_then_afters))
