"""A table of encodings: its nonzero rows, and the rounding error of its storage type."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.signal.formula import Float64Array

# Noise averages out over this number of values, and more values add nothing.
_CLOSELY = 2**18
# The rate of a rotation is more exact over more rows, at any width.
_LEAST_ROWS = 64
# Values of a block, which must fit the cache of a processor.
_BLOCK = 2**16
# Half a unit in the last place, relative to the value: float32 (and float64), float16, bfloat16.
_RELATIVE = (2.0**-24, 2.0**-11, 2.0**-8)
# A second rounding and the fitted scale can move a value by more than half a unit.
SLACK = 1.5


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that are not all zeros: their indices in a table, `(count,)`, and their values, `(count, channels)`."""

    index: npt.NDArray[np.intp]
    values: Float64Array


class CheckedTable:
    """A validated table of encodings: `(length, channels)`, finite, with at least 4 nonzero rows."""

    def __init__(self, table: npt.ArrayLike) -> None:
        given = np.asarray(table)
        if given.dtype.kind not in "iuf" and given.dtype.name != "bfloat16":
            raise ArgTypeError("table", f"must hold real numbers. Received: an array of dtype {given.dtype}.")
        self.is_quantized = given.dtype.kind in "iu"
        self._rows = as_matrix(given)
        if self.is_quantized and self._rows.ndim == 2 and self._rows.size:
            self._rows = np.subtract(self._rows, _zero_point(self._rows), dtype=np.float64)
        least, most = (
            self.range_of(axis=1) if self._rows.ndim == 2 and self._rows.shape[1] > 1 else [np.array([np.nan])] * 2
        )
        if not np.isfinite([least, most]).all():
            raise ArgValueError(
                "table",
                "must be (length, channels) with at least 2 channels, and finite. "
                f"Received: an array of shape {given.shape}.",
            )
        self._index = np.flatnonzero((least != 0) | (most != 0))
        self.channels = self._rows.shape[1]
        if len(self._index) < 4:
            raise ArgValueError(
                "table",
                "must have at least 4 rows that are not zero: fewer fit too many conventions. "
                f"Received: {len(self._index)} such rows.",
            )

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def count(self) -> int:
        """Number of nonzero rows."""
        return len(self._index)

    @property
    def class_tokens(self) -> int:
        """Number of rows of zeros before the first nonzero row."""
        return int(self._index[0])

    def without_class_tokens(self) -> "CheckedTable":
        """Returns the table from its first nonzero row on."""
        after = CheckedTable(self._rows[self.class_tokens :])
        after.is_quantized = self.is_quantized
        return after

    def range_of(self, axis: int) -> list[Float64Array]:
        """Returns the least and the largest value of each column (axis 0) or of each row (axis 1)."""
        return [each(self._rows, axis=axis).astype(np.float64) for each in (np.min, np.max)]

    def rows(self, some: Any = slice(None)) -> Rows:
        """Returns some or all nonzero rows, in float64."""
        index = self._index[some]
        return Rows(index, self._rows[index].astype(np.float64))

    def closely(self) -> Rows:
        """Returns the first nonzero rows; all of them for a small table."""
        return self.rows(slice(max(_LEAST_ROWS, _CLOSELY // self.channels)))

    def spread(self) -> Rows:
        """Returns a few evenly spaced nonzero rows, from the first to the last; all of them for a small table."""
        return self.rows(np.unique(np.linspace(0, len(self._index) - 1, _LEAST_ROWS).round().astype(int)))

    def blocks(self) -> Iterator[Rows]:
        """Returns all nonzero rows, in blocks."""
        size = max(1, _BLOCK // self.channels)
        return (self.rows(slice(first, first + size)) for first in range(0, len(self._index), size))


def as_matrix(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Returns `(1, length, channels)` or `(length, 1, channels)` as `(length, channels)`, other arrays unchanged."""
    return array.reshape(-1, array.shape[2]) if array.ndim == 3 and 1 in array.shape[:2] else array


def _zero_point(table: npt.NDArray[np.generic]) -> float:
    """Returns the zero point of a quantized table, around which all rows have one sum of squares: sin^2 + cos^2 = 1.

    The sum of squares is therefore a straight line over the sum of the values, with twice the zero point as its slope.
    """
    rows = table[: max(_LEAST_ROWS, _CLOSELY // table.shape[1])].astype(np.float64)
    rows = rows[np.ptp(rows, axis=1) > 0]  # a row of zeros has another sum
    sums, squares = rows.sum(axis=1), np.square(rows).sum(axis=1)
    if not sums.any() or np.ptp(sums) == 0:
        return 0.0
    slope, offset = np.polyfit(sums, squares, 1)
    is_line = np.abs(squares - slope * sums - offset).max() < LOOSE * squares.mean()
    return float(np.rint(slope / 2)) if is_line else 0.0


@dataclass(frozen=True, eq=False)
class Rounding:
    """The largest error of a value in its storage type: `relative` to the value, and `absolute` for each column."""

    relative: float
    absolute: Float64Array | float

    def of(self, values: Float64Array) -> Float64Array:
        """Returns the largest error of each value: `(rows, channels)`."""
        largest: Float64Array = self.relative * np.abs(values) + self.absolute
        return largest

    @classmethod
    def from_radii(cls, radii: Float64Array, table: CheckedTable, values: Float64Array) -> "Rounding | None":
        """Returns the finest rounding of a table that explains the different radii of its rows, or None."""
        mean = float(np.sqrt(np.mean(radii**2)))
        off = float(np.abs(radii - mean).max()) / (mean or np.inf)
        if mean == 0 or off >= LOOSE:
            return None
        scale = float(np.sqrt(2 * np.mean(values**2)))
        relative = next((each for each in _RELATIVE if each >= _exact_in(values) and SLACK * each + 3e-7 >= off), None)
        # int8 steps are half as coarse as bfloat16 at 1, and far coarser near 0.
        if table.is_quantized or relative in (None, _RELATIVE[-1]):
            for steps in _int8_steps(table, values):
                whole = values / steps
                if np.abs(whole - np.round(whole)).max() < 0.1:  # float16 stores 127 steps within 0.06 of a step
                    return cls(0.0, np.broadcast_to(steps, values.shape).max(axis=0) / 2 + 1e-7 * scale)
        # Subnormal float16 values have an error of half a step of 2**-24. float32 sines have an error of 1e-7.
        return None if relative is None else cls(relative, 1.5e-7 * scale + (relative == _RELATIVE[1]) * 2.0**-25)


# Largest relative difference of radii; int8 steps cause 6e-3. This is loose, since a fit then compares all values.
LOOSE = 2e-2


def _exact_in(values: Float64Array) -> float:
    """Returns the error of the coarsest type that represents all values exactly, or that of float32."""
    with np.errstate(over="ignore"):
        half, single = values.astype(np.float16), values.astype(np.float32)
    # bfloat16 is float32 without its lower 16 bits. It is tried first, since float16 represents most of its values too.
    if np.array_equal(single, values) and not (single.view(np.uint32) & 0xFFFF).any():
        return _RELATIVE[2]
    return _RELATIVE[1] if np.array_equal(half, values) else _RELATIVE[0]


def _int8_steps(table: CheckedTable, values: Float64Array) -> Iterator[Float64Array]:
    """Yields int8 steps by table, column and row: 1 / 127 or 1 / 128 of the largest value, 1 / 255 of the range.

    A table of integers has the step 1.
    """
    if table.is_quantized:
        yield np.ones(1)
    low, high = table.range_of(axis=0)
    ranges = (low.min(), high.max()), (low, high), (values.min(1, keepdims=True), values.max(1, keepdims=True))
    for least, most in ranges:
        largest = np.maximum(np.abs(least), np.abs(most))
        for steps in (largest / 127, largest / 128, (most - least) / 255):
            yield np.where(steps > 0, steps, 1.0)
