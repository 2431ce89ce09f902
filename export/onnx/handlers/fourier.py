"""The Fourier transforms of complex and real tensors, as exact as Keras' own at every length.

ONNX Runtime's DFT operator is exact only if the length is a power of two, so other lengths use other methods. Errors of
the operator, relative to the largest value, are 4e-5 at length 400, 1e-4 at 1009 and 5e-3 at 16000. Errors of the
methods here are 1e-6.
"""

from dataclasses import dataclass

import numpy as np

from keras_pe.export.onnx.handlers.complex_numbers import complex_handler, join, part, times
from keras_pe.export.onnx.handlers.handler_registry import Replacement

_Size = int | str  # an integer, or the name of an int64 scalar

# Entries of the largest matrix, which transforms real frames of 2048 and takes 16 MiB in the file. The second limit is
# lower, since DFT is an alternative.
_LARGEST_MATRIX = 2048 * 2050
_LARGEST_MATRIX_BESIDE_DFT = 2**21


@dataclass(frozen=True)
class _Transform:
    """The sums over the `terms` of x[j] exp(-2 pi i j k / length), for each k below `count`.

    Attributes:
        ctx: The replacement that writes the nodes.
        rank: The rank of the tensor without the axis of pairs.
        length: The period.
        terms: The number of x.
        count: The number of sums.
        is_inverse: Whether the terms are x[j] exp(+2 pi i j k / length) / length.
        is_of_reals: Whether the x are real numbers instead of pairs.
        is_real: Whether the result is the real parts of the sums instead of pairs.
    """

    ctx: Replacement
    rank: int
    length: _Size
    terms: _Size
    count: _Size
    is_inverse: bool = False
    is_of_reals: bool = False
    is_real: bool = False

    def write(self, x: str) -> str:
        """Writes the transform and returns the sums."""
        matrix = self._matrix()
        if matrix is not None:
            return self._product(x, matrix)
        if self.ctx.opset < 17:
            raise ValueError("A Fourier transform of this length needs opset 17.")
        axes = [0, -1] if self.is_of_reals else [0]
        # In float32 a transform mixes the rounding of one part into the other. float64 is as fast in ONNX Runtime.
        wide = self.ctx.cast(self.ctx.emit("Unsqueeze", x, axes), "float64")
        sums = self._first_sums(self._dft(wide, self.length, self.is_inverse)) if self._is_power else self._chirp(wide)
        sums = self.ctx.cast(self.ctx.emit("Squeeze", sums, [0]), self.ctx.numpy_dtype(x))
        return part(self.ctx, sums, 0) if self.is_real else sums

    @property
    def _is_power(self) -> bool:
        return isinstance(self.length, int) and self.length & (self.length - 1) == 0

    def _matrix(self) -> np.ndarray | None:
        """Returns the real matrix that maps x to the sums; None if the matrix is too large."""
        if not (isinstance(self.length, int) and isinstance(self.terms, int) and isinstance(self.count, int)):
            return None
        rows, columns = self.terms * (2 - self.is_of_reals), self.count * (2 - self.is_real)
        has_dft = self._is_power and self.ctx.opset >= 17
        if rows * columns > (_LARGEST_MATRIX_BESIDE_DFT if has_dft else _LARGEST_MATRIX):
            return None
        places = np.outer(np.arange(self.terms), np.arange(self.count))
        waves = _roots(places if self.is_inverse else -places, self.length) / (self.length if self.is_inverse else 1)
        # The axes are the part of x, the part of the sum, the index of x and the index of the sum.
        blocks = np.array([[waves.real, waves.imag], [-waves.imag, waves.real]])
        blocks = blocks[: 2 - self.is_of_reals, : 2 - self.is_real]
        return blocks.transpose(2, 0, 3, 1).reshape(rows, columns)

    def _product(self, x: str, matrix: np.ndarray) -> str:
        ctx, outer = self.ctx, [0] * (self.rank - 1)  # a 0 copies the size
        if not self.is_of_reals:
            x = ctx.emit("Reshape", x, [*outer, len(matrix)])
        sums = ctx.emit("MatMul", x, ctx.constant_like(matrix, x))
        return sums if self.is_real else ctx.emit("Reshape", sums, [*outer, matrix.shape[1] // 2, 2])

    def _dft(self, x: str, size: _Size, is_inverse: bool = False) -> str:
        """Writes ONNX's DFT, which pads the axis with zeros and needs a batch axis first."""
        return self.ctx.emit("DFT", x, _scalar(self.ctx, size), axis=self.rank, inverse=int(is_inverse))

    def _first_sums(self, sums: str) -> str:
        if isinstance(self.count, int):
            return _slice_first(self.ctx, sums, self.count, self.rank)
        # A Gather, unlike a Slice, tells the size of its result: there are at least so many sums.
        return self.ctx.emit("Gather", sums, self.ctx.emit("Range", 0, self.count, 1), axis=self.rank)

    def _chirp(self, x: str) -> str:
        """Writes Bluestein's algorithm: 2jk is j**2 + k**2 - (k - j)**2, so the sums are a convolution with a chirp.

        Transforms of a sufficient length compute a convolution. The next power of two is sufficient.
        """
        ctx = self.ctx
        terms, count = _scalar(ctx, self.terms), _scalar(ctx, self.count)
        least = ctx.emit("Sub", ctx.emit("Add", terms, count), 1)
        powers = ctx.constant(2 ** np.arange(62), "int64")
        size = ctx.emit("Gather", ctx.emit("Compress", powers, ctx.emit("GreaterOrEqual", powers, least)), 0)

        before = self._wave(ctx.emit("Range", 0, terms, 1), self.is_inverse)
        after = self._wave(ctx.emit("Range", 0, count, 1), self.is_inverse)
        place = ctx.emit("Range", 0, size, 1)
        difference = ctx.emit("Where", ctx.emit("Less", place, count), place, ctx.emit("Sub", size, place))
        kernel = ctx.emit("Unsqueeze", self._wave(difference, not self.is_inverse), range(self.rank))

        x = ctx.emit("Mul", x, before) if self.is_of_reals else times(ctx, x, before)
        product = times(ctx, self._dft(x, size), self._dft(kernel, size))
        sums = times(ctx, self._first_sums(self._dft(product, size, is_inverse=True)), after)
        return ctx.emit("Div", sums, ctx.cast(_scalar(ctx, self.length), "float64")) if self.is_inverse else sums

    def _wave(self, places: str, is_inverse: bool) -> str:
        """Writes the pairs of exp(-pi i places**2 / length). The angles are reduced as integers, which is exact."""
        ctx, length = self.ctx, _scalar(self.ctx, self.length)
        period = ctx.emit("Add", length, length)
        steps = ctx.emit("Mod", ctx.emit("Mul", places, places), period)
        step = ctx.emit("Div", np.pi if is_inverse else -np.pi, ctx.cast(length, "float64"))
        angle = ctx.emit("Mul", ctx.cast(steps, "float64"), step)
        return join(ctx, ctx.emit("Cos", angle), ctx.emit("Sin", angle))


def _roots(places: np.ndarray, length: int) -> np.ndarray:
    """Returns exp(2 pi i place / length), exact at each quarter of a turn.

    The rounded sine of pi is not zero. Its sign would change the angle of a real number by half a turn.
    """
    quarters, rest = np.divmod(4 * (places % length), length)
    return np.array([1, 1j, -1, -1j])[quarters] * np.exp(0.5j * np.pi * rest / length)


def _scalar(ctx: Replacement, size: _Size) -> str:
    """Writes a size as an int64 scalar."""
    return ctx.constant(size, "int64") if isinstance(size, int) else size


def _slice_first(ctx: Replacement, x: str, count: _Size, axis: int) -> str:
    """Writes the first entries along an axis."""
    shape = ctx.shape(x)
    if shape is not None and shape[axis] == count:
        return x
    stop = ctx.emit("Reshape", _scalar(ctx, count), [1])
    return ctx.emit("Slice", x, [0], stop, [axis])


@complex_handler("FFT", "IFFT")
def fft(ctx: Replacement, pairs: str) -> str:
    """Writes the transform of the last axis."""
    return _transform_axis(ctx, pairs, -1)


@complex_handler("FFT2D", "IFFT2D")
def fft2(ctx: Replacement, pairs: str) -> str:
    """Writes the transform of the last axis, then of the axis before."""
    rank = ctx.rank(ctx.outputs[0])
    swap = [*range(rank - 2), rank - 1, rank - 2, rank]
    rows = _transform_axis(ctx, pairs, -1)
    columns = _transform_axis(ctx, ctx.emit("Transpose", rows, perm=swap), -2)
    return ctx.emit("Transpose", columns, perm=swap)


@complex_handler("RFFT")
def rfft(ctx: Replacement, signal: str, fft_length: str) -> str:
    """Writes the transform of a real signal without the mirrored half."""
    rank, length = ctx.rank(ctx.outputs[0]), _length(ctx, fft_length)
    transform = _Transform(ctx, rank, length, length, _bins(ctx, length), is_of_reals=True)
    return transform.write(_slice_first(ctx, signal, length, rank - 1))


@complex_handler("IRFFT")
def irfft(ctx: Replacement, pairs: str, fft_length: str) -> str:
    """Writes the real signal of half a spectrum; a bin with a mirror image counts twice."""
    rank, length = ctx.rank(ctx.outputs[0]), _length(ctx, fft_length)
    bins = _bins(ctx, length)
    spectrum = _slice_first(ctx, pairs, bins, rank - 1)
    place = ctx.emit("Range", 0, _scalar(ctx, bins), 1)
    middle = ctx.emit("Equal", ctx.emit("Mul", place, 2), length)
    mirrors_itself = ctx.emit("Or", ctx.emit("Equal", place, 0), middle)
    counts = ctx.emit("Where", mirrors_itself, ctx.constant_like(1, spectrum), ctx.constant_like(2, spectrum))
    weighted = ctx.emit("Mul", spectrum, ctx.emit("Unsqueeze", counts, [-1]))
    return _Transform(ctx, rank, length, bins, length, is_inverse=True, is_real=True).write(weighted)


def _transform_axis(ctx: Replacement, pairs: str, axis: int) -> str:
    """Writes the transform of the last axis of pairs; its size is the size of an axis of the output."""
    output = ctx.outputs[0]
    size: _Size = int(ctx.known_shape(output)[axis])
    if size == -1:
        size = ctx.emit("Gather", ctx.emit("Shape", pairs), -2)
    is_inverse = ctx.operator.startswith("I")
    return _Transform(ctx, ctx.rank(output), size, size, size, is_inverse=is_inverse).write(pairs)


def _length(ctx: Replacement, tensor: str) -> _Size:
    """Returns the length argument of a real transform."""
    value = ctx.value(tensor)
    return ctx.emit("Squeeze", ctx.cast(tensor, "int64")) if value is None else int(value.item())


def _bins(ctx: Replacement, length: _Size) -> _Size:
    """Returns the number of bins of a spectrum without the mirrored half."""
    if isinstance(length, int):
        return length // 2 + 1
    return ctx.emit("Add", ctx.emit("Div", length, 2), 1)
