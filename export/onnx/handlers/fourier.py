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

    at: Replacement
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
        if self.at.graph.opset < 17:
            raise ValueError("A Fourier transform of this length needs opset 17.")
        axes = self.at.integers(0, -1) if self.is_of_reals else self.at.integers(0)
        # In float32 a transform leaks from one part into the other; ONNX Runtime takes float64 as fast.
        wide = self.at.cast(self.at.emit("Unsqueeze", x, axes), "float64")
        sums = self._first_sums(self._dft(wide, self.length, self.is_inverse)) if self._is_power else self._chirp(wide)
        sums = self.at.cast(self.at.emit("Squeeze", sums, self.at.integers(0)), self.at.numpy_dtype(x))
        return part(self.at, sums, 0) if self.is_real else sums

    @property
    def _is_power(self) -> bool:
        return isinstance(self.length, int) and self.length & (self.length - 1) == 0

    def _matrix(self) -> np.ndarray | None:
        """Returns the matrix from the real numbers that x is made of to those of the sums, unless it is too large."""
        if not (isinstance(self.length, int) and isinstance(self.terms, int) and isinstance(self.count, int)):
            return None
        rows, columns = self.terms * (2 - self.is_of_reals), self.count * (2 - self.is_real)
        has_dft = self._is_power and self.at.graph.opset >= 17
        if rows * columns > (LARGEST_MATRIX_BESIDE_DFT if has_dft else LARGEST_MATRIX):
            return None
        # The remainder keeps the angles small, and so exact.
        turns = np.outer(np.arange(self.terms), np.arange(self.count)) % self.length / self.length
        waves = np.exp((2j if self.is_inverse else -2j) * np.pi * turns) / (self.length if self.is_inverse else 1)
        # The axes: part of x, part of the sum, number of x, number of the sum.
        blocks = np.array([[waves.real, waves.imag], [-waves.imag, waves.real]])
        blocks = blocks[: 2 - self.is_of_reals, : 2 - self.is_real]
        return blocks.transpose(2, 0, 3, 1).reshape(rows, columns)

    def _product(self, x: str, matrix: np.ndarray) -> str:
        at, outer = self.at, [0] * (self.rank - 1)  # a 0 copies the size
        if not self.is_of_reals:
            x = at.emit("Reshape", x, at.integers(*outer, len(matrix)))
        sums = at.emit("MatMul", x, at.constant_like(matrix, x))
        return sums if self.is_real else at.emit("Reshape", sums, at.integers(*outer, matrix.shape[1] // 2, 2))

    def _dft(self, x: str, size: Size, is_inverse: bool = False) -> str:
        """Writes ONNX's DFT, which fills the axis up with zeros and wants a batch before all others."""
        return self.at.emit("DFT", x, scalar(self.at, size), axis=self.rank, inverse=int(is_inverse))

    def _first_sums(self, sums: str) -> str:
        return first(self.at, sums, self.count, self.rank)

    def _chirp(self, x: str) -> str:
        """Writes Bluestein's algorithm: as 2jk is j**2 + k**2 - (k - j)**2, the sums are a convolution with a chirp.

        A convolution can be made of transforms of any length with enough room, such as the next power of two.
        """
        at = self.at
        zero, one = (at.constant(value, "int64") for value in (0, 1))
        terms, count = scalar(at, self.terms), scalar(at, self.count)
        room = at.emit("Sub", at.emit("Add", terms, count), one)
        powers = at.constant(2 ** np.arange(62), "int64")
        size = at.emit("Gather", at.emit("Compress", powers, at.emit("GreaterOrEqual", powers, room)), zero)

        before = self._wave(at.emit("Range", zero, terms, one), self.is_inverse)
        after = self._wave(at.emit("Range", zero, count, one), self.is_inverse)
        place = at.emit("Range", zero, size, one)
        difference = at.emit("Where", at.emit("Less", place, count), place, at.emit("Sub", size, place))
        kernel = at.emit("Unsqueeze", self._wave(difference, not self.is_inverse), at.integers(*range(self.rank)))

        x = at.emit("Mul", x, before) if self.is_of_reals else times(at, x, before)
        product = times(at, self._dft(x, size), self._dft(kernel, size))
        sums = times(at, self._first_sums(self._dft(product, size, is_inverse=True)), after)
        return at.emit("Div", sums, at.cast(scalar(at, self.length), "float64")) if self.is_inverse else sums

    def _wave(self, places: str, is_inverse: bool) -> str:
        """Writes the pairs of exp(-pi i places**2 / length), the angles reduced in integers and so exact."""
        at, length = self.at, scalar(self.at, self.length)
        period = at.emit("Add", length, length)
        steps = at.emit("Mod", at.emit("Mul", places, places), period)
        step = at.emit("Div", at.constant(np.pi if is_inverse else -np.pi, "float64"), at.cast(length, "float64"))
        angle = at.emit("Mul", at.cast(steps, "float64"), step)
        return join(at, at.emit("Cos", angle), at.emit("Sin", angle))


def scalar(at: Replacement, size: Size) -> str:
    """Writes a size as an int64 scalar."""
    return at.constant(size, "int64") if isinstance(size, int) else size


def first(at: Replacement, x: str, count: Size, axis: int) -> str:
    """Writes the first entries along an axis."""
    shape = at.graph.get_shape(x)
    if shape is not None and shape[axis] == count:
        return x
    stop = at.emit("Reshape", scalar(at, count), at.integers(1))
    return at.emit("Slice", x, at.integers(0), stop, at.integers(axis))
