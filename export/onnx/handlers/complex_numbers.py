"""Complex tensors as pairs: a last axis of two holds the real and the imaginary part, as ONNX's own DFT takes them.

TensorFlow declares such a tensor without that axis, so no handler of real tensors may meet one: it would take the wrong
axis in silence. Before the conversion `mark_complex` therefore renames each operator that takes or returns complex
numbers, and only those that a handler here or in `spectra` knows by the new name are converted.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from keras_pe.export.onnx.handlers.arithmetic import angle
from keras_pe.export.onnx.handlers.marked_operators import OF_COMPLEX
from keras_pe.export.onnx.handlers.replacement import Replacement, handler

_PARTS: dict[int, int] = {TensorProto.COMPLEX64: TensorProto.FLOAT, TensorProto.COMPLEX128: TensorProto.DOUBLE}


def mark_complex(operator: str, inputs: Sequence[int], outputs: Sequence[int]) -> str:
    """Returns another type for operators of complex numbers."""
    return operator + OF_COMPLEX if any(dtype in _PARTS for dtype in (*inputs, *outputs)) else operator


def complex_handler(*operators: str) -> Callable[[Callable[[Replacement], None]], Any]:
    """Registers a function as the handler of TensorFlow operators where they take or return complex numbers."""
    return handler(*(f"{operator}{OF_COMPLEX}" for operator in operators))


def as_pairs(ctx: Replacement, name: str) -> str:
    """Returns a complex input as pairs. A constant is still as TensorFlow has it."""
    value = ctx.value(name)
    if value is None:
        return name
    return ctx.constant(np.stack([value.real, value.imag], axis=-1), value.real.dtype)


def join(ctx: Replacement, real: str, imaginary: str) -> str:
    """Writes the pairs of two real tensors."""
    last = ctx.integers(-1)
    return ctx.emit("Concat", ctx.emit("Unsqueeze", real, last), ctx.emit("Unsqueeze", imaginary, last), axis=-1)


def part(ctx: Replacement, pairs: str, index: int) -> str:
    """Writes the real (0) or the imaginary (1) part of pairs."""
    return ctx.emit("Gather", pairs, ctx.constant(index, "int64"), axis=-1)


def times(ctx: Replacement, first: str, second: str) -> str:
    """Writes the product of pairs."""
    (a, b), (c, d) = ((part(ctx, pairs, 0), part(ctx, pairs, 1)) for pairs in (first, second))
    real = ctx.emit("Sub", ctx.emit("Mul", a, c), ctx.emit("Mul", b, d))
    return join(ctx, real, ctx.emit("Add", ctx.emit("Mul", a, d), ctx.emit("Mul", b, c)))


def conjugated(ctx: Replacement, pairs: str) -> str:
    """Writes the second of each pair with the other sign."""
    return ctx.emit("Mul", pairs, ctx.constant_like([1, -1], pairs))


def length(ctx: Replacement, pairs: str) -> str:
    """Writes the length of each pair, over its longer side, so that no square overflows or vanishes."""
    unit = longer_side(ctx, pairs)
    first, second = (ctx.emit("Div", part(ctx, pairs, index), unit) for index in (0, 1))
    squares = ctx.emit("Add", ctx.emit("Mul", first, first), ctx.emit("Mul", second, second))
    return ctx.emit("Mul", unit, ctx.emit("Sqrt", squares))


def longer_side(ctx: Replacement, pairs: str) -> str:
    """Writes the larger number of each pair without its sign, one in place of zero and infinity."""
    longer = ctx.emit("Max", *(ctx.emit("Abs", part(ctx, pairs, index)) for index in (0, 1)))
    positive = ctx.emit("Greater", longer, ctx.constant_like(0, longer))
    finite = ctx.emit("Less", longer, ctx.constant_like(np.inf, longer))
    return ctx.emit("Where", ctx.emit("And", positive, finite), longer, ctx.constant_like(1, longer))


def finish_pairs(ctx: Replacement, pairs: str) -> None:
    """Puts pairs in the place of the TensorFlow node and declares them as what they are."""
    (output,) = ctx.outputs
    shape = ctx.shape(output)
    ctx.declare(output, None if shape is None else [*shape, 2], _PARTS[ctx.onnx_dtype(output)])
    ctx.finish(pairs)


@complex_handler("Complex")
def complex_of_parts(ctx: Replacement) -> None:
    """Two real tensors of one shape: TensorFlow would broadcast them, Keras does not ask it to."""
    real, imaginary = ctx.inputs
    shapes = zip(ctx.known_shape(real), ctx.known_shape(imaginary), strict=True)
    if any(size != other and 1 in (size, other) for size, other in shapes):
        raise ValueError("A real and an imaginary part of unlike shapes have no ONNX form.")
    finish_pairs(ctx, join(ctx, real, imaginary))


@complex_handler("Cast")
def cast(ctx: Replacement) -> None:
    """A real tensor as a complex one, or the real part of a complex one."""
    (x,), (output,) = ctx.inputs, ctx.outputs
    if ctx.onnx_dtype(output) not in _PARTS:
        ctx.finish(ctx.cast_like_output(part(ctx, as_pairs(ctx, x), 0)))
        return
    if ctx.rank(x) != ctx.rank(output):  # it has the last axis of pairs
        raise ValueError("Only a real tensor can be cast to a complex one.")
    real = ctx.emit("Cast", x, to=_PARTS[ctx.onnx_dtype(output)])
    finish_pairs(ctx, join(ctx, real, ctx.emit("Expand", ctx.constant_like(0, real), ctx.emit("Shape", real))))


@complex_handler("Real")
def real_part(ctx: Replacement) -> None:
    """The first of each pair."""
    ctx.finish(part(ctx, as_pairs(ctx, ctx.inputs[0]), 0))


@complex_handler("Imag")
def imaginary_part(ctx: Replacement) -> None:
    """The second of each pair."""
    ctx.finish(part(ctx, as_pairs(ctx, ctx.inputs[0]), 1))


@complex_handler("ComplexAbs")
def absolute(ctx: Replacement) -> None:
    """The length of each pair."""
    ctx.finish(length(ctx, as_pairs(ctx, ctx.inputs[0])))


@complex_handler("Angle")
def argument(ctx: Replacement) -> None:
    """The angle of each pair."""
    pairs = as_pairs(ctx, ctx.inputs[0])
    ctx.finish(angle(ctx, part(ctx, pairs, 1), part(ctx, pairs, 0)))


@complex_handler("Conj")
def conjugate(ctx: Replacement) -> None:
    """The second of each pair with the other sign."""
    finish_pairs(ctx, conjugated(ctx, as_pairs(ctx, ctx.inputs[0])))


@complex_handler("AddV2")
def add(ctx: Replacement) -> None:
    """Sums of pairs. Broadcasting aligns the last axes, so the shapes need not have one rank."""
    first, second = (as_pairs(ctx, name) for name in ctx.inputs)
    finish_pairs(ctx, ctx.emit("Add", first, second))


@complex_handler("Sub")
def subtract(ctx: Replacement) -> None:
    """Differences of pairs."""
    first, second = (as_pairs(ctx, name) for name in ctx.inputs)
    finish_pairs(ctx, ctx.emit("Sub", first, second))


@complex_handler("Neg")
def negate(ctx: Replacement) -> None:
    """Both of each pair with the other sign."""
    finish_pairs(ctx, ctx.emit("Neg", as_pairs(ctx, ctx.inputs[0])))


@complex_handler("Sum", "Mean")
def reduce(ctx: Replacement) -> None:
    """The sum or mean of the first of each pair, and of the second."""
    x, axes = ctx.inputs
    pairs, kept = as_pairs(ctx, x), ctx.attribute("keep_dims", 0)
    rank = ctx.rank(pairs) - 1
    places = ctx.integers(*(int(axis) % rank for axis in ctx.constant_value(axes).reshape(-1)))
    operator = ctx.operator.removesuffix(OF_COMPLEX)
    # From opset 18 on the axes of a mean are an input, those of a sum are one in all that are exported to.
    if operator == "Mean" and ctx.opset < 18:
        reduced = ctx.emit("ReduceMean", pairs, axes=ctx.constant_value(places).tolist(), keepdims=kept)
    else:
        reduced = ctx.emit(f"Reduce{operator}", pairs, places, keepdims=kept)
    finish_pairs(ctx, reduced)


@complex_handler("Mul")
def multiply(ctx: Replacement) -> None:
    """Products of pairs."""
    first, second = (as_pairs(ctx, name) for name in ctx.inputs)
    finish_pairs(ctx, times(ctx, first, second))


@complex_handler("Identity")
def identity(ctx: Replacement) -> None:
    """The same pairs."""
    finish_pairs(ctx, as_pairs(ctx, ctx.inputs[0]))


@complex_handler("Shape")
def shape(ctx: Replacement) -> None:
    """The shape without the axis of the pairs."""
    whole = ctx.emit("Shape", as_pairs(ctx, ctx.inputs[0]))
    ctx.finish(ctx.cast_like_output(ctx.emit("Slice", whole, ctx.integers(0), ctx.integers(-1))))


@complex_handler("Pad")
def pad(ctx: Replacement) -> None:
    """Zeros around, and none beside a pair."""
    x, paddings = ctx.inputs
    by_axis = ctx.emit("Concat", ctx.cast(paddings, "int64"), ctx.constant([[0, 0]], "int64"), axis=0)
    befores_then_afters = ctx.emit("Reshape", ctx.emit("Transpose", by_axis, perm=[1, 0]), ctx.integers(-1))
    finish_pairs(ctx, ctx.emit("Pad", as_pairs(ctx, x), befores_then_afters))
