"""Complex tensors as pairs: a last axis of two holds the real and the imaginary part, as in ONNX's own DFT.

TensorFlow declares a complex tensor without that axis, so a handler of real tensors would silently use the wrong axis.
Therefore `tf2onnx_calls` renames each operator with complex inputs or outputs before the conversion. An operator is
converted only if a handler here, in `complex_arrays` or in `fourier` has the new name.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from onnx import TensorProto

from keras_pe.export.onnx.handlers.arithmetic import angle
from keras_pe.export.onnx.handlers.handler_registry import Handler, Replacement, handler
from keras_pe.export.onnx.tf2onnx_calls import OF_COMPLEX

_PARTS: dict[int, int] = {TensorProto.COMPLEX64: TensorProto.FLOAT, TensorProto.COMPLEX128: TensorProto.DOUBLE}


def complex_handler(*operators: str) -> Callable[[Handler], Handler]:
    """Registers a function as the handler of TensorFlow operators that accept or return complex numbers.

    The function accepts and returns pairs in place of complex tensors.
    """

    def register(function: Handler) -> Handler:
        def handle_pairs(ctx: Replacement, *inputs: str) -> str | Sequence[str] | None:
            result, (output,) = function(ctx, *(_convert_to_pairs(ctx, name) for name in inputs)), ctx.outputs
            if (kind := ctx.onnx_dtype(output)) in _PARTS:
                shape = ctx.shape(output)
                ctx.declare(output, None if shape is None else [*shape, 2], _PARTS[kind])
            return result

        handler(*(f"{operator}{OF_COMPLEX}" for operator in operators))(handle_pairs)
        return function

    return register


def _convert_to_pairs(ctx: Replacement, name: str) -> str:
    """Returns an input as pairs; a complex constant is not pairs yet."""
    value = ctx.value(name)
    if value is None or value.dtype.kind != "c":
        return name
    return ctx.constant(np.stack([value.real, value.imag], axis=-1), value.real.dtype)


def join(ctx: Replacement, real: str, imaginary: str) -> str:
    """Writes the pairs of two real tensors."""
    return ctx.emit("Concat", *(ctx.emit("Unsqueeze", each, [-1]) for each in (real, imaginary)), axis=-1)


def part(ctx: Replacement, pairs: str, index: int) -> str:
    """Writes the real (0) or the imaginary (1) part of pairs."""
    return ctx.emit("Gather", pairs, ctx.constant(index, "int64"), axis=-1)


def parts(ctx: Replacement, pairs: str) -> tuple[str, str]:
    """Writes the real and the imaginary part of pairs."""
    return part(ctx, pairs, 0), part(ctx, pairs, 1)


def times(ctx: Replacement, first: str, second: str) -> str:
    """Writes the product of pairs."""
    return _product(ctx, parts(ctx, first), parts(ctx, second), partial(ctx.emit, "Mul"))


def _product(
    ctx: Replacement, first: tuple[str, str], second: tuple[str, str], multiply: Callable[[str, str], str]
) -> str:
    """Writes the pairs of a product of real and imaginary parts."""
    (a, b), (c, d) = first, second
    real = ctx.emit("Sub", multiply(a, c), multiply(b, d))
    return join(ctx, real, ctx.emit("Add", multiply(a, d), multiply(b, c)))


def conjugate(ctx: Replacement, pairs: str) -> str:
    """Writes pairs with a negated imaginary part."""
    return ctx.emit("Mul", pairs, ctx.constant_like([1, -1], pairs))


def length(ctx: Replacement, pairs: str) -> str:
    """Writes the length of each pair, over its longer side, so that no square overflows or vanishes."""
    unit = longer_side(ctx, pairs)
    first, second = (ctx.emit("Div", each, unit) for each in parts(ctx, pairs))
    squares = ctx.emit("Add", ctx.emit("Mul", first, first), ctx.emit("Mul", second, second))
    return ctx.emit("Mul", unit, ctx.emit("Sqrt", squares))


def longer_side(ctx: Replacement, pairs: str) -> str:
    """Writes the larger number of each pair without its sign, one in place of zero and infinity."""
    longer = ctx.emit("Max", *(ctx.emit("Abs", each) for each in parts(ctx, pairs)))
    positive = ctx.emit("Greater", longer, 0)
    finite = ctx.emit("Less", longer, np.inf)
    return ctx.emit("Where", ctx.emit("And", positive, finite), longer, 1)


def _inverse(ctx: Replacement, pairs: str) -> str:
    """Writes the conjugate over the square of the length, both over the longer side so that no square overflows."""
    side = ctx.emit("Unsqueeze", longer_side(ctx, pairs), [-1])
    pairs = ctx.emit("Div", pairs, side)
    square = ctx.emit_reduction("ReduceSumSquare", pairs, [-1])
    return ctx.emit("Div", ctx.emit("Div", conjugate(ctx, pairs), square), side)


def _exponential(ctx: Replacement, pairs: str) -> str:
    """Writes the exponential of the real part, rotated by the imaginary part."""
    real, turn = parts(ctx, pairs)
    size = ctx.emit("Exp", real)
    return join(ctx, *(ctx.emit("Mul", size, ctx.emit(wave, turn)) for wave in ("Cos", "Sin")))


def _angle(ctx: Replacement, pairs: str) -> str:
    width, height = parts(ctx, pairs)
    return angle(ctx, height, width)


def _logarithm(ctx: Replacement, pairs: str) -> str:
    """Writes the logarithm of the length, and the angle."""
    return join(ctx, ctx.emit("Log", length(ctx, pairs)), _angle(ctx, pairs))


# Broadcasting aligns the last axes, so the shapes of sums need not have one rank.
_FORMS: dict[str, Callable[..., str]] = {
    "Identity": lambda ctx, pairs: pairs,
    "AddV2": lambda ctx, first, second: ctx.emit("Add", first, second),
    "Sub": lambda ctx, first, second: ctx.emit("Sub", first, second),
    "Mul": times,
    "RealDiv": lambda ctx, first, second: times(ctx, first, _inverse(ctx, second)),
    "Neg": lambda ctx, pairs: ctx.emit("Neg", pairs),
    "Conj": conjugate,
    "Square": lambda ctx, pairs: times(ctx, pairs, pairs),
    "Reciprocal": _inverse,
    "Inv": _inverse,
    "Exp": _exponential,
    "Log": _logarithm,
    "Real": lambda ctx, pairs: part(ctx, pairs, 0),
    "Imag": lambda ctx, pairs: part(ctx, pairs, 1),
    "ComplexAbs": length,
    "Angle": _angle,
}
for _operator, _form in _FORMS.items():
    complex_handler(_operator)(_form)


@complex_handler("Complex")
def complex_of_parts(ctx: Replacement, real: str, imaginary: str) -> str:
    """Writes pairs of two real tensors of one shape: Keras does not use the broadcasting of TensorFlow."""
    shapes = zip(ctx.known_shape(real), ctx.known_shape(imaginary), strict=True)
    if any(size != other and 1 in (size, other) for size, other in shapes):
        raise ValueError("A real and an imaginary part of unlike shapes have no ONNX form.")
    return join(ctx, real, imaginary)


@complex_handler("Cast")
def cast(ctx: Replacement, x: str) -> str:
    """Converts a real tensor to a complex tensor, or a complex tensor to its real part."""
    (output,) = ctx.outputs
    if ctx.onnx_dtype(output) not in _PARTS:
        return ctx.cast_like_output(part(ctx, x, 0))
    if ctx.rank(x) != ctx.rank(output):  # the input has the last axis of pairs
        raise ValueError("Only a real tensor can be cast to a complex one.")
    real = ctx.emit("Cast", x, to=_PARTS[ctx.onnx_dtype(output)])
    return join(ctx, real, ctx.emit("Expand", ctx.constant_like(0, real), ctx.emit("Shape", real)))


@complex_handler("Sum", "Mean")
def reduce(ctx: Replacement, pairs: str, axes: str) -> str:
    """Writes the sum or mean of the real parts and of the imaginary parts."""
    rank, kept = ctx.rank(pairs) - 1, ctx.attribute("keep_dims", 0)
    places = [int(axis) % rank for axis in ctx.constant_value(axes).reshape(-1)]
    return ctx.emit_reduction(f"Reduce{ctx.operator.removesuffix(OF_COMPLEX)}", pairs, places, kept)


@complex_handler("Shape")
def shape(ctx: Replacement, pairs: str) -> str:
    """Writes the shape without the axis of pairs."""
    return ctx.cast_like_output(ctx.emit("Slice", ctx.emit("Shape", pairs), [0], [-1]))


@complex_handler("Pad")
def pad(ctx: Replacement, pairs: str, paddings: str) -> str:
    """Pads each axis with zeros, except the axis of pairs."""
    by_axis = ctx.emit("Concat", ctx.cast(paddings, "int64"), ctx.constant([[0, 0]], "int64"), axis=0)
    befores_then_afters = ctx.emit("Reshape", ctx.emit("Transpose", by_axis, perm=[1, 0]), [-1])
    return ctx.emit("Pad", pairs, befores_then_afters)


@complex_handler("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matrix_product(ctx: Replacement, first: str, second: str) -> str:
    """Writes four products of real matrices."""
    left, right = _matrices(ctx, first, "adj_x", "transpose_a"), _matrices(ctx, second, "adj_y", "transpose_b")
    return _product(ctx, left, right, partial(ctx.emit, "MatMul"))


@complex_handler("Einsum")
def contract(ctx: Replacement, *operands: str) -> str:
    """Writes four contractions of real tensors."""
    if len(operands) != 2:
        raise ValueError("Einsum of complex numbers has an ONNX form for two operands only.")
    multiply = partial(ctx.emit, "Einsum", equation=ctx.attribute("equation"))
    first, second = (parts(ctx, pairs) for pairs in operands)
    return _product(ctx, first, second, multiply)


def _matrices(ctx: Replacement, pairs: str, adjoint: str, transposed: str) -> tuple[str, str]:
    """Writes the real and the imaginary matrices of an operand, transposed as these attributes say."""
    is_adjoint = ctx.attribute(adjoint, 0)
    real, imaginary = parts(ctx, conjugate(ctx, pairs) if is_adjoint else pairs)
    if is_adjoint or ctx.attribute(transposed, 0):
        *outer, rows, columns = range(ctx.rank(pairs) - 1)
        real, imaginary = (ctx.emit("Transpose", each, perm=[*outer, columns, rows]) for each in (real, imaginary))
    return real, imaginary
