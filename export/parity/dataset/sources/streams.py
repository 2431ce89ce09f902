"""Rows that come in their order, once: read by the caller, and sent to the workers shard by shard."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.parity.dataset.sources.arrays import hash_rows
from keras_pe.export.parity.dataset.sources.source import SHARD_ROWS, Column, DataError, Rows, Shard
from keras_pe.export.results import Array

_SHARD_BYTES = 2**26
_LEAST_ROWS = 1024  # of a shard of large rows: a whole batch, as batches are by default


class Stream:
    """A data set that this process reads from its beginning to its end, each time it is asked for its shards."""

    is_local = True

    def __init__(
        self, name: str, columns: Sequence[str], rows: int | None, pieces: Callable[[], Iterator[Rows]]
    ) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.rows = rows
        self._pieces = pieces

    def shards(self) -> Iterator[Shard]:
        start = 0
        for index, content in enumerate(_gathered(self._pieces())):
            rows = len(next(iter(content.values())))
            yield Shard(index, start, rows, self.name, None, hash_rows(content), content)
            start += rows
        if not start:
            raise DataError(f"{self.name} must have at least one row. Received: none.")

    def read(self, shard: Shard, count: int, columns: Sequence[str]) -> Iterator[Rows]:
        raise AssertionError("its shards hold their rows")


def to_rows(element: Any, names: Sequence[str]) -> Rows:
    """Returns a batch as rows under names: a mapping, a sequence in the order of the names, or one array.

    Raises:
        DataError: If it has as many parts as there are names, but not.
    """
    if isinstance(element, Mapping):
        return {str(name): as_column(value) for name, value in element.items()}
    parts = list(element) if isinstance(element, tuple | list) else [element]
    if len(parts) != len(names):
        raise DataError(f"A batch must have {len(names)} parts. Received: {len(parts)}.")
    return {name: as_column(value) for name, value in zip(names, parts, strict=True)}


def as_column(value: Any) -> Column:
    """Returns the rows of a batch as an array, or as a list of arrays where they differ in shape."""
    if hasattr(value, "to_list") and hasattr(value, "row_splits"):  # a RaggedTensor
        return [np.asarray(row) for row in value]
    array: Array = np.asarray(value)
    if array.dtype.kind == "S":
        array = array.astype(object)
    return array


def _gathered(pieces: Iterator[Rows]) -> Iterator[Rows]:
    """Returns rows in pieces of one size, but for the last. Several wait at once: large rows come in smaller ones."""
    held: list[Rows] = []
    size = count = 0
    for piece in pieces:
        rows = len(next(iter(piece.values())))
        count = count or _shard_rows(piece, rows)
        start = 0
        while size + rows - start >= count:
            stop = start + count - size
            held.append({name: column[start:stop] for name, column in piece.items()})
            yield _joined(held)
            held, size, start = [], 0, stop
        if start < rows:
            held.append({name: column[start:] for name, column in piece.items()})
            size += rows - start
    if held:
        yield _joined(held)


def _shard_rows(piece: Rows, rows: int) -> int:
    """Returns how many rows of the size of these make a shard."""
    columns = [[column] if isinstance(column, np.ndarray) else column for column in piece.values()]
    nbytes = sum(array.nbytes for column in columns for array in column)
    fitting = _SHARD_BYTES * rows // max(nbytes, 1)
    return min(SHARD_ROWS, max(_LEAST_ROWS, fitting))


def _joined(pieces: list[Rows]) -> Rows:
    if len(pieces) == 1:
        return pieces[0]
    return {name: _concatenated([piece[name] for piece in pieces]) for name in pieces[0]}


def _concatenated(columns: list[Column]) -> Column:
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(columns) and len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    return [row for column in columns for row in column]
