"""The discrete Fourier transform along the last axis, as exact as Keras' own at every length.

ONNX Runtime's DFT operator is exact for powers of two only: at 400 it is off by 4e-5 of the largest value, at 1009 by
1e-4, at 16000 by 5e-3, where all ways taken here are by 1e-6. So it is used for powers of two alone.
"""

from dataclasses import dataclass

import numpy as np

from keras_pe.export.onnx.handlers.complex_numbers import join, part, times
from keras_pe.export.onnx.handlers.replacement import Replacement

Size = int | str  # a number, or the int64 scalar that holds it

# Entries of the largest matrix: that of real frames of 2048, 16 MiB in the file. Beside DFT it may be smaller.
LARGEST_MATRIX = 2048 * 2050
LARGEST_MATRIX_BESIDE_DFT = 2**21


@dataclass(frozen=True)
class Transform:
    """The sums over the `terms` of x[j] exp(-2 pi i j k / length), for each k below `count`.

    Attributes:
        at: Where to write.
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
    length: Size
    terms: Size
    count: Size
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
        axes = self.ctx.integers(0, -1) if self.is_of_reals else self.ctx.integers(0)
        # In float32 a transform leaks from one part into the other; ONNX Runtime takes float64 as fast.
        wide = self.ctx.cast(self.ctx.emit("Unsqueeze", x, axes), "float64")
        sums = self._first_sums(self._dft(wide, self.length, self.is_inverse)) if self._is_power else self._chirp(wide)
        sums = self.ctx.cast(self.ctx.emit("Squeeze", sums, self.ctx.integers(0)), self.ctx.numpy_dtype(x))
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
        if rows * columns > (LARGEST_MATRIX_BESIDE_DFT if has_dft else LARGEST_MATRIX):
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
            x = ctx.emit("Reshape", x, ctx.integers(*outer, len(matrix)))
        sums = ctx.emit("MatMul", x, ctx.constant_like(matrix, x))
        return sums if self.is_real else ctx.emit("Reshape", sums, ctx.integers(*outer, matrix.shape[1] // 2, 2))

    def _dft(self, x: str, size: Size, is_inverse: bool = False) -> str:
        """Writes ONNX's DFT, which fills the axis up with zeros and wants a batch before all others."""
        return self.ctx.emit("DFT", x, scalar(self.ctx, size), axis=self.rank, inverse=int(is_inverse))

    def _first_sums(self, sums: str) -> str:
        return first(self.ctx, sums, self.count, self.rank)

    def _chirp(self, x: str) -> str:
        """Writes Bluestein's algorithm: as 2jk is j**2 + k**2 - (k - j)**2, the sums are a convolution with a chirp.

        A convolution can be made of transforms of any length with enough room, such as the next power of two.
        """
        ctx = self.ctx
        zero, one = (ctx.constant(value, "int64") for value in (0, 1))
        terms, count = scalar(ctx, self.terms), scalar(ctx, self.count)
        room = ctx.emit("Sub", ctx.emit("Add", terms, count), one)
        powers = ctx.constant(2 ** np.arange(62), "int64")
        size = ctx.emit("Gather", ctx.emit("Compress", powers, ctx.emit("GreaterOrEqual", powers, room)), zero)

        before = self._wave(ctx.emit("Range", zero, terms, one), self.is_inverse)
        after = self._wave(ctx.emit("Range", zero, count, one), self.is_inverse)
        place = ctx.emit("Range", zero, size, one)
        difference = ctx.emit("Where", ctx.emit("Less", place, count), place, ctx.emit("Sub", size, place))
        kernel = ctx.emit("Unsqueeze", self._wave(difference, not self.is_inverse), ctx.integers(*range(self.rank)))

        x = ctx.emit("Mul", x, before) if self.is_of_reals else times(ctx, x, before)
        product = times(ctx, self._dft(x, size), self._dft(kernel, size))
        sums = times(ctx, self._first_sums(self._dft(product, size, is_inverse=True)), after)
        return ctx.emit("Div", sums, ctx.cast(scalar(ctx, self.length), "float64")) if self.is_inverse else sums

    def _wave(self, places: str, is_inverse: bool) -> str:
        """Writes the pairs of exp(-pi i places**2 / length), the angles reduced in integers and so exact."""
        ctx, length = self.ctx, scalar(self.ctx, self.length)
        period = ctx.emit("Add", length, length)
        steps = ctx.emit("Mod", ctx.emit("Mul", places, places), period)
        step = ctx.emit("Div", ctx.constant(np.pi if is_inverse else -np.pi, "float64"), ctx.cast(length, "float64"))
        angle = ctx.emit("Mul", ctx.cast(steps, "float64"), step)
        return join(ctx, ctx.emit("Cos", angle), ctx.emit("Sin", angle))


def _roots(places: np.ndarray, length: int) -> np.ndarray:
    """Returns exp(2 pi i place / length), exact at each quarter of a turn.

    A rounded sine of pi would be the sign of an imaginary part that is zero, and so half a turn of its angle.
    """
    quarters, rest = np.divmod(4 * (places % length), length)
    return np.array([1, 1j, -1, -1j])[quarters] * np.exp(0.5j * np.pi * rest / length)


def scalar(ctx: Replacement, size: Size) -> str:
    """Writes a size as an int64 scalar."""
    return ctx.constant(size, "int64") if isinstance(size, int) else size


def first(ctx: Replacement, x: str, count: Size, axis: int) -> str:
    """Writes the first entries along an axis."""
    shape = ctx.shape(x)
    if shape is not None and shape[axis] == count:
        return x
    stop = ctx.emit("Reshape", scalar(ctx, count), ctx.integers(1))
    return ctx.emit("Slice", x, ctx.integers(0), stop, ctx.integers(axis))
