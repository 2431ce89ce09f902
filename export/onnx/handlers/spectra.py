"""The Fourier transforms of complex and real tensors, along the last axis or the last two."""

from keras_pe.export.onnx.handlers.complex_numbers import as_pairs, complex_handler, finish_pairs
from keras_pe.export.onnx.handlers.fourier import Size, Transform, first, scalar
from keras_pe.export.onnx.handlers.replacement import Replacement


@complex_handler("FFT", "IFFT")
def fft(ctx: Replacement) -> None:
    """The transform of the last axis."""
    finish_pairs(ctx, _along(ctx, as_pairs(ctx, ctx.inputs[0]), -1))


@complex_handler("FFT2D", "IFFT2D")
def fft2(ctx: Replacement) -> None:
    """The transforms of the last two axes, one after the other."""
    rank = ctx.rank(ctx.outputs[0])
    swap = [*range(rank - 2), rank - 1, rank - 2, rank]
    rows = _along(ctx, as_pairs(ctx, ctx.inputs[0]), -1)
    columns = _along(ctx, ctx.emit("Transpose", rows, perm=swap), -2)
    finish_pairs(ctx, ctx.emit("Transpose", columns, perm=swap))


@complex_handler("RFFT")
def rfft(ctx: Replacement) -> None:
    """The transform of a real signal, without the half that mirrors the other."""
    rank, length = ctx.rank(ctx.outputs[0]), _length(ctx)
    signal = first(ctx, ctx.inputs[0], length, rank - 1)
    transform = Transform(ctx, rank, length, length, _bins(ctx, length), is_of_reals=True)
    finish_pairs(ctx, transform.write(signal))


@complex_handler("IRFFT")
def irfft(ctx: Replacement) -> None:
    """The real signal of half a spectrum: a bin that the other half mirrors counts twice."""
    rank, length = ctx.rank(ctx.outputs[0]), _length(ctx)
    bins = _bins(ctx, length)
    spectrum = first(ctx, as_pairs(ctx, ctx.inputs[0]), bins, rank - 1)
    zero, one, two = (scalar(ctx, size) for size in (0, 1, 2))
    place = ctx.emit("Range", zero, scalar(ctx, bins), one)
    middle = ctx.emit("Equal", ctx.emit("Mul", place, two), scalar(ctx, length))
    mirrors_itself = ctx.emit("Or", ctx.emit("Equal", place, zero), middle)
    counts = ctx.emit("Where", mirrors_itself, ctx.constant_like(1, spectrum), ctx.constant_like(2, spectrum))
    counted = ctx.emit("Mul", spectrum, ctx.emit("Unsqueeze", counts, ctx.integers(-1)))
    ctx.finish(Transform(ctx, rank, length, bins, length, is_inverse=True, is_real=True).write(counted))


def _along(ctx: Replacement, pairs: str, axis: int) -> str:
    """Writes the transform of the last axis of pairs, which has the size of an axis of the node's output."""
    output = ctx.outputs[0]
    size: Size = int(ctx.known_shape(output)[axis])
    if size == -1:
        size = ctx.emit("Gather", ctx.emit("Shape", pairs), ctx.constant(-2, "int64"))
    is_inverse = ctx.operator.startswith("I")
    return Transform(ctx, ctx.rank(output), size, size, size, is_inverse=is_inverse).write(pairs)


def _length(ctx: Replacement) -> Size:
    """Returns the length, which is the second input of TensorFlow's real transforms."""
    value = ctx.value(ctx.inputs[1])
    if value is not None:
        return int(value.item())
    return ctx.emit("Squeeze", ctx.cast(ctx.inputs[1], "int64"))


def _bins(ctx: Replacement, length: Size) -> Size:
    """Returns how many numbers of a spectrum none of the others mirrors."""
    if isinstance(length, int):
        return length // 2 + 1
    return ctx.emit("Add", ctx.emit("Div", length, scalar(ctx, 2)), scalar(ctx, 1))
