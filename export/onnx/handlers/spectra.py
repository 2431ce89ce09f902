"""The Fourier transforms of complex and real tensors, along the last axis or the last two."""

from keras_pe.export.onnx.handlers.complex_numbers import as_pairs, complex_handler, finish_pairs
from keras_pe.export.onnx.handlers.fourier import Size, Transform, first, scalar
from keras_pe.export.onnx.handlers.replacement import Replacement


@complex_handler("FFT", "IFFT")
def fft(at: Replacement) -> None:
    """The transform of the last axis."""
    finish_pairs(at, _along(at, as_pairs(at, at.inputs[0]), -1))


@complex_handler("FFT2D", "IFFT2D")
def fft2(at: Replacement) -> None:
    """The transforms of the last two axes, one after the other."""
    rank = at.rank(at.node.output[0])
    swap = [*range(rank - 2), rank - 1, rank - 2, rank]
    rows = _along(at, as_pairs(at, at.inputs[0]), -1)
    columns = _along(at, at.emit("Transpose", rows, perm=swap), -2)
    finish_pairs(at, at.emit("Transpose", columns, perm=swap))


@complex_handler("RFFT")
def rfft(at: Replacement) -> None:
    """The transform of a real signal, without the half that mirrors the other."""
    rank, length = at.rank(at.node.output[0]), _length(at)
    signal = first(at, at.inputs[0], length, rank - 1)
    transform = Transform(at, rank, length, length, _bins(at, length), is_of_reals=True)
    finish_pairs(at, transform.write(signal))


@complex_handler("IRFFT")
def irfft(at: Replacement) -> None:
    """The real signal of half a spectrum: a bin that the other half mirrors counts twice."""
    rank, length = at.rank(at.node.output[0]), _length(at)
    bins = _bins(at, length)
    spectrum = first(at, as_pairs(at, at.inputs[0]), bins, rank - 1)
    zero, one, two = (scalar(at, size) for size in (0, 1, 2))
    place = at.emit("Range", zero, scalar(at, bins), one)
    middle = at.emit("Equal", at.emit("Mul", place, two), scalar(at, length))
    mirrors_itself = at.emit("Or", at.emit("Equal", place, zero), middle)
    counts = at.emit("Where", mirrors_itself, at.constant_like(1, spectrum), at.constant_like(2, spectrum))
    counted = at.emit("Mul", spectrum, at.emit("Unsqueeze", counts, at.integers(-1)))
    at.finish(Transform(at, rank, length, bins, length, is_inverse=True, is_real=True).write(counted))


def _along(at: Replacement, pairs: str, axis: int) -> str:
    """Writes the transform of the last axis of pairs, which has the size of an axis of the node's output."""
    output = at.node.output[0]
    size: Size = int(at.graph.get_shape(output)[axis])
    if size == -1:
        size = at.emit("Gather", at.emit("Shape", pairs), at.constant(-2, "int64"))
    is_inverse = at.node.type.startswith("I")
    return Transform(at, at.rank(output), size, size, size, is_inverse=is_inverse).write(pairs)


def _length(at: Replacement) -> Size:
    """Returns the length, which is the second input of TensorFlow's real transforms."""
    node = at.node.inputs[1]
    if node.is_const():
        return int(node.get_tensor_value(as_list=False).item())
    return at.emit("Squeeze", at.cast(at.inputs[1], "int64"))


def _bins(at: Replacement, length: Size) -> Size:
    """Returns how many numbers of a spectrum none of the others mirrors."""
    if isinstance(length, int):
        return length // 2 + 1
    return at.emit("Add", at.emit("Div", length, scalar(at, 2)), scalar(at, 1))
