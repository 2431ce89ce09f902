"""The Fourier transforms of complex and real tensors, as exact as Keras' own at every length.

ONNX Runtime's DFT operator is exact for powers of two only: at 400 it is off by 4e-5 of the largest value, at 1009 by
1e-4, at 16000 by 5e-3, where all ways taken here are by 1e-6. So it is used for powers of two alone.
"""

from dataclasses import dataclass

import numpy as np

from keras_pe.export.onnx.handlers.complex_numbers import complex_handler, join, part, times
from keras_pe.export.onnx.handlers.replacement import Replacement

_Size = int | str  # a number, or the int64 scalar that holds it

# Entries of the largest matrix: that of real frames of 2048, 16 MiB in the file. Beside DFT it may be smaller.
_LARGEST_MATRIX = 2048 * 2050
_LARGEST_MATRIX_BESIDE_DFT = 2**21


@dataclass(frozen=True)
class _Transform:
    """The sums over the `terms` of x[j] exp(-2 pi i j k / length), for each k below `count`.

    Attributes:
        ctx: Where to write.
        rank: The rank of the tensor, the axis of pairs left out.
        length: The period.
        terms: How many x there are.
        count: How many sums are wanted.
        is_inverse: Wants x[j] exp(+2 pi i j k / length) / length.
        is_of_reals: The x are real numbers, not pairs.
        is_real: The real parts of the sums are wanted alone, not pairs.
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
        # In float32 a transform leaks from one part into the other; ONNX Runtime takes float64 as fast.
        wide = self.ctx.cast(self.ctx.emit("Unsqueeze", x, axes), "float64")
        sums = self._first_sums(self._dft(wide, self.length, self.is_inverse)) if self._is_power else self._chirp(wide)
        sums = self.ctx.cast(self.ctx.emit("Squeeze", sums, [0]), self.ctx.numpy_dtype(x))
        return part(self.ctx, sums, 0) if self.is_real else sums

    @property
    def _is_power(self) -> bool:
        return isinstance(self.length, int) and self.length & (self.length - 1) == 0

    def _matrix(self) -> np.ndarray | None:
        """Returns the matrix from the real numbers that x is made of to those of the sums, unless it is too large."""
        if not (isinstance(self.length, int) and isinstance(self.terms, int) and isinstance(self.count, int)):
            return None
        rows, columns = self.terms * (2 - self.is_of_reals), self.count * (2 - self.is_real)
        has_dft = self._is_power and self.ctx.opset >= 17
        if rows * columns > (_LARGEST_MATRIX_BESIDE_DFT if has_dft else _LARGEST_MATRIX):
            return None
        places = np.outer(np.arange(self.terms), np.arange(self.count))
        waves = _roots(places if self.is_inverse else -places, self.length) / (self.length if self.is_inverse else 1)
        # The axes: part of x, part of the sum, number of x, number of the sum.
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
        """Writes ONNX's DFT, which fills the axis up with zeros and wants a batch before all others."""
        return self.ctx.emit("DFT", x, _scalar(self.ctx, size), axis=self.rank, inverse=int(is_inverse))

    def _first_sums(self, sums: str) -> str:
        return _first(self.ctx, sums, self.count, self.rank)

    def _chirp(self, x: str) -> str:
        """Writes Bluestein's algorithm: as 2jk is j**2 + k**2 - (k - j)**2, the sums are a convolution with a chirp.

        A convolution can be made of transforms of any length with enough room, such as the next power of two.
        """
        ctx = self.ctx
        terms, count = _scalar(ctx, self.terms), _scalar(ctx, self.count)
        room = ctx.emit("Sub", ctx.emit("Add", terms, count), 1)
        powers = ctx.constant(2 ** np.arange(62), "int64")
        size = ctx.emit("Gather", ctx.emit("Compress", powers, ctx.emit("GreaterOrEqual", powers, room)), 0)

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
        """Writes the pairs of exp(-pi i places**2 / length), the angles reduced in integers and so exact."""
        ctx, length = self.ctx, _scalar(self.ctx, self.length)
        period = ctx.emit("Add", length, length)
        steps = ctx.emit("Mod", ctx.emit("Mul", places, places), period)
        step = ctx.emit("Div", np.pi if is_inverse else -np.pi, ctx.cast(length, "float64"))
        angle = ctx.emit("Mul", ctx.cast(steps, "float64"), step)
        return join(ctx, ctx.emit("Cos", angle), ctx.emit("Sin", angle))


def _roots(places: np.ndarray, length: int) -> np.ndarray:
    """Returns exp(2 pi i place / length), exact at each quarter of a turn.

    A rounded sine of pi would be the sign of an imaginary part that is zero, and so half a turn of its angle.
    """
    quarters, rest = np.divmod(4 * (places % length), length)
    return np.array([1, 1j, -1, -1j])[quarters] * np.exp(0.5j * np.pi * rest / length)


def _scalar(ctx: Replacement, size: _Size) -> str:
    """Writes a size as an int64 scalar."""
    return ctx.constant(size, "int64") if isinstance(size, int) else size


def _first(ctx: Replacement, x: str, count: _Size, axis: int) -> str:
    """Writes the first entries along an axis."""
    shape = ctx.shape(x)
    if shape is not None and shape[axis] == count:
        return x
    stop = ctx.emit("Reshape", _scalar(ctx, count), [1])
    return ctx.emit("Slice", x, [0], stop, [axis])


@complex_handler("FFT", "IFFT")
def fft(ctx: Replacement, pairs: str) -> str:
    """The transform of the last axis."""
    return _along(ctx, pairs, -1)


@complex_handler("FFT2D", "IFFT2D")
def fft2(ctx: Replacement, pairs: str) -> str:
    """The transforms of the last two axes, one after the other."""
    rank = ctx.rank(ctx.outputs[0])
    swap = [*range(rank - 2), rank - 1, rank - 2, rank]
    rows = _along(ctx, pairs, -1)
    columns = _along(ctx, ctx.emit("Transpose", rows, perm=swap), -2)
    return ctx.emit("Transpose", columns, perm=swap)


@complex_handler("RFFT")
def rfft(ctx: Replacement, signal: str, fft_length: str) -> str:
    """The transform of a real signal, without the half that mirrors the other."""
    rank, length = ctx.rank(ctx.outputs[0]), _length(ctx, fft_length)
    transform = _Transform(ctx, rank, length, length, _bins(ctx, length), is_of_reals=True)
    return transform.write(_first(ctx, signal, length, rank - 1))


@complex_handler("IRFFT")
def irfft(ctx: Replacement, pairs: str, fft_length: str) -> str:
    """The real signal of half a spectrum: a bin that the other half mirrors counts twice."""
    rank, length = ctx.rank(ctx.outputs[0]), _length(ctx, fft_length)
    bins = _bins(ctx, length)
    spectrum = _first(ctx, pairs, bins, rank - 1)
    place = ctx.emit("Range", 0, _scalar(ctx, bins), 1)
    middle = ctx.emit("Equal", ctx.emit("Mul", place, 2), length)
    mirrors_itself = ctx.emit("Or", ctx.emit("Equal", place, 0), middle)
    counts = ctx.emit("Where", mirrors_itself, ctx.constant_like(1, spectrum), ctx.constant_like(2, spectrum))
    counted = ctx.emit("Mul", spectrum, ctx.emit("Unsqueeze", counts, [-1]))
    return _Transform(ctx, rank, length, bins, length, is_inverse=True, is_real=True).write(counted)


def _along(ctx: Replacement, pairs: str, axis: int) -> str:
    """Writes the transform of the last axis of pairs, which has the size of an axis of the node's output."""
    output = ctx.outputs[0]
    size: _Size = int(ctx.known_shape(output)[axis])
    if size == -1:
        size = ctx.emit("Gather", ctx.emit("Shape", pairs), -2)
    is_inverse = ctx.operator.startswith("I")
    return _Transform(ctx, ctx.rank(output), size, size, size, is_inverse=is_inverse).write(pairs)


def _length(ctx: Replacement, tensor: str) -> _Size:
    """Returns the length that a real transform is told."""
    value = ctx.value(tensor)
    return ctx.emit("Squeeze", ctx.cast(tensor, "int64")) if value is None else int(value.item())


def _bins(ctx: Replacement, length: _Size) -> _Size:
    """Returns how many numbers of a spectrum none of the others mirrors."""
    if isinstance(length, int):
        return length // 2 + 1
    return ctx.emit("Add", ctx.emit("Div", length, 2), 1)
