"""The rows of a table: those that count, a part of them to look at closely, and all of them a block at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_pe.signal.formula import Float64Array

# Noise averages out over so many values, and further ones add nothing.
_CLOSELY = 2**18
# The turn from row to row is known the better the longer it is followed, at any width.
_LEAST_ROWS = 64
# Values of a block: few enough for a processor's cache.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a table, none of them all zeros.

    Attributes:
        index: `(count,)`, where they stand in the table.
        values: `(count, channels)`.
    """

    index: npt.NDArray[np.intp]
    values: Float64Array


class CheckedTable:
    """A table of encodings that has been checked: `(length, channels)`, finite, with at least 4 rows that count."""

    def __init__(self, table: npt.ArrayLike) -> None:
        given = np.asarray(table)
        if given.dtype.kind not in "iuf" and given.dtype.name != "bfloat16":
            raise TypeError(f"`table` must hold real numbers. Received: an array of dtype {given.dtype}.")
        rows = as_matrix(given)
        largest = _largest(rows) if rows.ndim == 2 and rows.shape[1] >= 2 else np.array([np.nan])
        if not np.isfinite(largest).all():
            raise ValueError(
                "`table` must be (length, channels) with at least 2 channels, and finite. "
                f"Received: an array of shape {given.shape}."
            )
        self._rows = rows
        self._index = np.flatnonzero(largest)
        self.channels = rows.shape[1]
        if len(self._index) < 4:
            raise ValueError(
                "`table` must have at least 4 rows that are not zero: fewer fit too many conventions. "
                f"Received: {len(self._index)} such rows."
            )

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def class_tokens(self) -> int:
        """Number of rows of zeros before all others."""
        return int(self._index[0])

    def without_class_tokens(self) -> "CheckedTable":
        """Returns the table from its first row on that is not zero."""
        return CheckedTable(self._rows[self.class_tokens :])

    def is_cut_by_zeros(self) -> bool:
        """Returns whether rows are zero after the first one that is not."""
        return len(self._index) < len(self._rows) - self.class_tokens

    def range_of_columns(self) -> tuple[Float64Array, Float64Array]:
        """Returns the least and the largest value of each column."""
        return self._rows.min(axis=0).astype(np.float64), self._rows.max(axis=0).astype(np.float64)

    def values(self) -> Float64Array:
        """Returns all rows in float64."""
        return self._rows.astype(np.float64)

    def closely(self) -> Rows:
        """Returns the first rows that count; of a small table all of them."""
        index = self._index[: max(_LEAST_ROWS, _CLOSELY // self.channels)]
        return Rows(index, self._rows[index].astype(np.float64))

    def spread(self) -> Rows:
        """Returns rows from the first to the last that counts, few and evenly apart."""
        some = np.linspace(0, len(self._index) - 1, _LEAST_ROWS).round().astype(int)
        return Rows(self._index[some], self._rows[self._index[some]].astype(np.float64))

    def is_all(self, rows: Rows) -> bool:
        """Returns whether these are all the rows that count."""
        return len(rows.index) == len(self._index)

    def blocks(self) -> Iterator[Rows]:
        """Returns the whole table, a block of rows at a time; rows of zeros have the values NaN."""
        counts = np.zeros(len(self._rows), dtype=bool)
        counts[self._index] = True
        for block in _blocks(*self._rows.shape):
            values = self._rows[block].astype(np.float64)
            values[~counts[block]] = np.nan
            yield Rows(np.arange(block.start, block.start + len(values)), values)


def as_matrix(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Returns `(1, length, channels)` or `(length, 1, channels)` as `(length, channels)`, other arrays as they are."""
    if array.ndim == 3 and 1 in array.shape[:2]:
        return array.reshape(-1, array.shape[2])
    return array


def _largest(rows: npt.NDArray[np.generic]) -> Float64Array:
    """Returns the largest absolute value of each row; NaN or infinite if a value is."""
    blocks = (rows[block].astype(np.float64) for block in _blocks(*rows.shape))
    return np.concatenate([np.zeros(0), *(np.abs(block).max(axis=1) for block in blocks)])


def _blocks(length: int, channels: int) -> list[slice]:
    count = max(1, _BLOCK // channels)
    return [slice(first, first + count) for first in range(0, length, count)]
