"""A data set as rows of named columns, and the conversion of a library's batches to such rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.results import Array

Column = Array | list[Array]
"""The rows of a column: one array with the rows first, or a list of arrays if their shapes differ."""

Rows = dict[str, Column]

SHARD_ROWS = 8192
"""Rows of a shard, if the file does not determine it."""


_PIECE_BYTES = 2**27
"""Bytes of the rows that are read at once, if one row has less."""


class DataError(ValueError):
    """The data set cannot be read, or does not fit the model. The message states the way out."""


@dataclass(frozen=True)
class DataPart:
    """Consecutive rows that any process can read.

    Attributes:
        rows: Number of rows.
        place: Location of the rows, as text for people.
        locator: Location of the rows, as JSON values for `DataSource.read`.
        identity: JSON values that change with the content of the rows, as far as it is known without reading them.
    """

    rows: int
    place: str
    locator: Any
    identity: Any


@dataclass(frozen=True)
class DataSource:
    """A data set that a connector has opened.

    Attributes:
        name: The name in the report.
        columns: The names of the columns.
        read: A function of the locator of a part, the most rows of a batch, and columns; returns an iterator of
            batches. A batch is a mapping of columns to arrays, lists of arrays or Arrow arrays. It may also be a
            sequence of these in the order of the columns, or a single one. With `parts`, the function must be
            picklable, since other processes call it.
        parts: The parts that `read` can read, in order. None if only this process can read the rows. `read` then takes
            None as locator, and the rows are sent to the other processes.
        rows: Number of rows if there are no parts; None if only reading can count them.
    """

    name: str
    columns: tuple[str, ...]
    read: Callable[[Any, int, Sequence[str]], Iterable[Any]]
    parts: tuple[DataPart, ...] | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        """Counts the rows of the parts.

        Raises:
            DataError: If there are no rows.
        """
        if self.parts is not None:
            object.__setattr__(self, "rows", sum(part.rows for part in self.parts))
        if self.rows == 0:
            raise DataError(f"{self.name} must have at least one row. Received: none.")


def rows_within(most: int, row_bytes: int, budget: int = _PIECE_BYTES) -> int:
    """Returns the number of rows to handle at once: at most `most`, at least 1, and no more than `budget` bytes."""
    return max(1, min(most, budget // max(1, row_bytes)))


def byte_count(column: Column) -> int:
    """Returns the bytes of a column. A text counts as its length."""
    if isinstance(column, list):
        return sum(map(byte_count, column))
    return sum(map(len, column.flat)) if column.dtype.kind == "O" else column.nbytes


def is_number(text: str | bytes) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def to_rows(batch: Any, names: Sequence[str], source: str, first_row: int) -> Rows:
    """Returns a batch as rows of named columns.

    Args:
        batch: A batch of `DataSource.read`: a mapping, a sequence in the order of the names, or one array.
        names: The columns.
        source: The name of the data in an error.
        first_row: The number of the batch's first row, for an error.

    Raises:
        DataError: If the number of columns differs, or a value is neither a number nor a text.
    """
    if not isinstance(batch, Mapping):
        parts = list(batch) if isinstance(batch, tuple | list) else [batch]
        if len(parts) != len(names):
            raise DataError(f"A batch of {source} must have {len(names)} parts. Received: {len(parts)}.")
        batch = dict(zip(names, parts, strict=True))
    return {str(name): to_column(value, f"Column {name!r} of {source}", first_row) for name, value in batch.items()}


def to_column(value: Any, what: str, first_row: int = 0) -> Column:
    """Returns a column as an array, or as a list of arrays if its rows differ in shape.

    Args:
        value: An array, a list of rows, or an Arrow column.
        what: The name of the column in an error.
        first_row: The number of the column's first row, for an error.

    Raises:
        DataError: If a value is missing, or is neither a number nor a text.
    """
    if hasattr(value, "null_count"):
        return _from_arrow(value, what, lambda number: first_row + number)
    if isinstance(value, list) and len({np.shape(row) for row in value}) > 1:
        return [np.asarray(row) for row in value]
    array: Array = np.asarray(value)
    if array.dtype.kind != "O":
        return array
    if array.ndim == 1 and len(array) and all(isinstance(row, np.ndarray | list) for row in array):
        # pandas and Ray Data store lists as an array of objects.
        return to_column([np.asarray(row) for row in array], what, first_row)
    if not all(isinstance(text, str | bytes) for text in array.flat):
        raise DataError(f"{what} must hold numbers or texts. Received: other objects.")
    return array


def count_rows(source: str, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Returns the number of rows, which all columns must share.

    Raises:
        DataError: If the source has no column, or the columns differ in their number of rows.
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
    """Returns an Arrow array as a column. Lists of a fixed size, and lists of equal length, become axes.

    `row_of` returns the row of an element by the element's index, for an error.
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
    raise DataError(f"{what} must hold numbers, texts or lists of them. Received: {kind}. Cast the column.")


def _dense(column: Column, what: str) -> Array:
    if isinstance(column, list):
        raise DataError(f"{what} must have lists of one length inside lists. Received: several lengths.")
    return column
