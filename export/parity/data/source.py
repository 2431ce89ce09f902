"""What a data set is to a check: rows under named columns, and how what a library calls a batch becomes such rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.results import Array

Column = Array | list[Array]
"""The rows of a column: one array with the rows first, or a list of arrays where their shapes differ."""

Rows = dict[str, Column]

SHARD_ROWS = 8192
"""Rows of a shard, where the file does not decide it."""


class DataError(ValueError):
    """The data set cannot be read, or does not fit the model. The message says what to do."""


@dataclass(frozen=True)
class DataPart:
    """Rows that stand together, and that any process can read.

    Attributes:
        rows: How many there are.
        place: Where they are, for people.
        locator: Where they are, for `DataSource.read`: JSON's plain values.
        identity: Changes with what the rows hold, as far as that is known without reading them: JSON's plain values.
    """

    rows: int
    place: str
    locator: Any
    identity: Any


@dataclass(frozen=True)
class DataSource:
    """A data set, as a connector opens it.

    Attributes:
        name: What the report calls it.
        columns: The names of its columns.
        read: Called with the locator of a part, the most rows of a batch, and columns; returns an iterator of batches.
            A batch is a mapping of columns to arrays, lists of arrays or Arrow arrays, a sequence of these in the order
            of the columns, or one of them. With `parts` it travels to other processes by pickle.
        parts: What `read` reads, in order. None where only this process can read the rows, from the first to the last:
            the locator is None then, and the rows are sent along.
        rows: How many rows there are, where there are no parts; None where only reading tells.
    """

    name: str
    columns: tuple[str, ...]
    read: Callable[[Any, int, Sequence[str]], Iterable[Any]]
    parts: tuple[DataPart, ...] | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        """Counts the rows of the parts.

        Raises:
            DataError: If there are none.
        """
        if self.parts is not None:
            object.__setattr__(self, "rows", sum(part.rows for part in self.parts))
        if self.rows == 0:
            raise DataError(f"{self.name} must have at least one row. Received: none.")


def to_rows(batch: Any, names: Sequence[str], source: str, first_row: int) -> Rows:
    """Returns a batch as rows under names: a mapping, a sequence in the order of the names, or one array.

    Args:
        batch: What `DataSource.read` yields.
        names: The columns.
        source: What an error calls the data.
        first_row: The number of its first row, for an error.

    Raises:
        DataError: If it has other parts, or what is neither numbers nor texts.
    """
    if not isinstance(batch, Mapping):
        parts = list(batch) if isinstance(batch, tuple | list) else [batch]
        if len(parts) != len(names):
            raise DataError(f"A batch of {source} must have {len(names)} parts. Received: {len(parts)}.")
        batch = dict(zip(names, parts, strict=True))
    return {str(name): to_column(value, f"Column {name!r} of {source}", first_row) for name, value in batch.items()}


def to_column(value: Any, what: str, first_row: int = 0) -> Column:
    """Returns a column as an array, or as a list of arrays where its rows differ in shape.

    Args:
        value: An array, a list of rows, or a column of Arrow.
        what: What an error calls it.
        first_row: The number of its first row, for an error.

    Raises:
        DataError: If it holds what is neither numbers nor texts, or a value is missing.
    """
    if hasattr(value, "null_count"):
        return _from_arrow(value, what, lambda number: first_row + number)
    if isinstance(value, list) and len({np.shape(row) for row in value}) > 1:
        return [np.asarray(row) for row in value]
    array: Array = np.asarray(value)
    if array.dtype.kind != "O":
        return array
    if array.ndim == 1 and len(array) and all(isinstance(row, np.ndarray | list) for row in array):
        return to_column([np.asarray(row) for row in array], what, first_row)  # as pandas and Ray Data hold lists
    if not all(isinstance(text, str | bytes) for text in array.flat):
        raise DataError(f"{what} must hold numbers or texts. Received: other objects.")
    return array


def count_rows(source: str, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Returns the number of rows that all columns have.

    Raises:
        DataError: If there is no column, or not one number of rows.
    """
    if not shapes:
        raise DataError(f"{source} must have a column for each input. Received: no column.")
    for column, shape in shapes.items():
        if not shape:
            raise DataError(f"Column {column!r} of {source} must have its rows first. Received: a single value.")
    counts = {shape[0] for shape in shapes.values()}
    if len(counts) > 1:
        found = ", ".join(f"{column} {shape[0]:,}" for column, shape in shapes.items())
        raise DataError(f"The columns of {source} must have one number of rows. Received: {found}.")
    return counts.pop()


def _from_arrow(column: Any, what: str, row_of: Callable[[int], int]) -> Column:
    """Returns an Arrow array: lists of a fixed size, and lists that happen to be of one length, are axes.

    Args:
        column: The array.
        what: What an error calls it.
        row_of: Returns the row that an element is in, by the element's number.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.null_count:
        row = row_of(int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]))
        raise DataError(f"{what} must have a value in every row. Received: null in row {row:,}.")
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        inner = _dense(_from_arrow(column.flatten(), what, lambda number: row_of(number // size)), what)
        return inner.reshape(len(column), size, *inner.shape[1:])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.asarray(column.value_lengths().to_numpy(zero_copy_only=False), np.int64)
        ends = np.cumsum(lengths)
        in_list = partial(np.searchsorted, ends, side="right")
        inner = _dense(_from_arrow(column.flatten(), what, lambda number: row_of(int(in_list(number)))), what)
        if len(set(lengths.tolist())) == 1:
            return inner.reshape(len(column), int(lengths[0]), *inner.shape[1:])
        return [inner[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
    if pa.types.is_dictionary(kind):
        return _from_arrow(column.dictionary_decode(), what, row_of)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return np.array(column.to_pylist(), object)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        array: Array = column.to_numpy(zero_copy_only=False)
        return array
    raise DataError(f"{what} must hold numbers, texts or lists of them. Received: {kind}.")


def _dense(column: Column, what: str) -> Array:
    if isinstance(column, list):
        raise DataError(f"{what} must have lists of one length inside lists. Received: several lengths.")
    return column
