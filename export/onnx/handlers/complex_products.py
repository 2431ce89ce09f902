"""Products, quotients, exponentials and logarithms of complex numbers."""

from collections.abc import Callable
from functools import partial

from keras_pe.export.onnx.handlers.arithmetic import angle
from keras_pe.export.onnx.handlers.complex_numbers import (
    as_pairs,
    complex_handler,
    conjugated,
    finish_pairs,
    join,
    length,
    longer_side,
    part,
    times,
)
from keras_pe.export.onnx.handlers.replacement import Replacement


@complex_handler("Square")
def square(ctx: Replacement) -> None:
    """Each pair times itself."""
    pairs = as_pairs(ctx, ctx.inputs[0])
    finish_pairs(ctx, times(ctx, pairs, pairs))


@complex_handler("RealDiv")
def divide(ctx: Replacement) -> None:
    """Quotients of pairs."""
    first, second = (as_pairs(ctx, name) for name in ctx.inputs)
    finish_pairs(ctx, times(ctx, first, _inverse(ctx, second)))


@complex_handler("Reciprocal", "Inv")
def invert(ctx: Replacement) -> None:
    """One divided by each pair."""
    finish_pairs(ctx, _inverse(ctx, as_pairs(ctx, ctx.inputs[0])))


@complex_handler("Exp")
def exponential(ctx: Replacement) -> None:
    """The exponential of the real part, at the angle that the imaginary part is."""
    pairs = as_pairs(ctx, ctx.inputs[0])
    size, turn = ctx.emit("Exp", part(ctx, pairs, 0)), part(ctx, pairs, 1)
    finish_pairs(ctx, join(ctx, *(ctx.emit("Mul", size, ctx.emit(wave, turn)) for wave in ("Cos", "Sin"))))


@complex_handler("Log")
def logarithm(ctx: Replacement) -> None:
    """The logarithm of the length, and the angle."""
    pairs = as_pairs(ctx, ctx.inputs[0])
    turn = angle(ctx, part(ctx, pairs, 1), part(ctx, pairs, 0))
    finish_pairs(ctx, join(ctx, ctx.emit("Log", length(ctx, pairs)), turn))


@complex_handler("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matrix_product(ctx: Replacement) -> None:
    """Four products of real matrices."""
    _multiply(ctx, _matrices(ctx, 0), _matrices(ctx, 1), partial(ctx.emit, "MatMul"))


@complex_handler("Einsum")
def contract(ctx: Replacement) -> None:
    """Four contractions of real tensors."""
    if len(ctx.inputs) != 2:
        raise ValueError("Einsum of complex numbers has an ONNX form for two operands only.")
    product = partial(ctx.emit, "Einsum", equation=ctx.attribute("equation"))
    first, second = (as_pairs(ctx, name) for name in ctx.inputs)
    _multiply(ctx, [part(ctx, first, 0), part(ctx, first, 1)], [part(ctx, second, 0), part(ctx, second, 1)], product)


def _multiply(ctx: Replacement, first: list[str], second: list[str], product: Callable[[str, str], str]) -> None:
    """Writes a product of real and imaginary parts."""
    (a, b), (c, d) = first, second
    imaginary = ctx.emit("Add", product(a, d), product(b, c))
    finish_pairs(ctx, join(ctx, ctx.emit("Sub", product(a, c), product(b, d)), imaginary))


def _matrices(ctx: Replacement, place: int) -> list[str]:
    """Writes the real and the imaginary matrices of an operand, transposed as the product wants them."""
    pairs, side = as_pairs(ctx, ctx.inputs[place]), "ab"[place]
    is_adjoint = ctx.attribute(f"adj_{'xy'[place]}", 0)
    matrices = [part(ctx, conjugated(ctx, pairs) if is_adjoint else pairs, index) for index in (0, 1)]
    if is_adjoint or ctx.attribute(f"transpose_{side}", 0):
        axes = list(range(ctx.rank(pairs) - 1))
        matrices = [ctx.emit("Transpose", each, perm=[*axes[:-2], axes[-1], axes[-2]]) for each in matrices]
    return matrices


def _inverse(ctx: Replacement, pairs: str) -> str:
    """Writes the conjugate over the square of the length, both over the longer side so that no square overflows."""
    side = ctx.emit("Unsqueeze", longer_side(ctx, pairs), ctx.integers(-1))
    pairs = ctx.emit("Div", pairs, side)
    square = ctx.emit_reduction("ReduceSumSquare", pairs, [-1])
    return ctx.emit("Div", ctx.emit("Div", conjugated(ctx, pairs), square), side)
