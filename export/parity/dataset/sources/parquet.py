"""Parquet files, by row groups: a column to an input by name, lists of a fixed size to axes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.dependencies import require
from keras_pe.export.parity.dataset.sources.source import (
    SHARD_ROWS,
    Column,
    DataError,
    Rows,
    Shard,
    file_identity,
    fingerprint,
)
from keras_pe.export.results import Array


class ParquetFiles:
    """One Parquet file, or several of one schema."""

    is_local = False

    def __init__(self, name: str, files: Sequence[Path]) -> None:
        require("check_dataset", "pyarrow", extra="data")
        self.name = name
        self._files = [str(file) for file in files]
        self._shards: list[Shard] = []
        schema: Any = None
        start = 0
        for file in files:
            metadata = _open(file).metadata
            found = metadata.schema.to_arrow_schema()
            if schema is not None and not found.equals(schema):
                raise DataError(f"The files of {name} must have one schema. Received: another one in {file.name}.")
            schema = found
            for groups, rows in _runs([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]):
                place = f"{file.name}, row group {groups[0]}" + (f"-{groups[-1]}" if len(groups) > 1 else "")
                mark = fingerprint(file_identity(file), groups)
                self._shards.append(Shard(len(self._shards), start, rows, place, [str(file), groups], mark))
                start += rows
        if not start:
            raise DataError(f"{name} must have at least one row. Received: none.")
        self.rows: int | None = start
        self.columns = tuple(schema.names)

    def shards(self) -> Iterator[Shard]:
        yield from self._shards

    def read(self, shard: Shard, count: int, columns: Sequence[str]) -> Iterator[Rows]:
        import pyarrow as pa

        path, groups = shard.locator
        row = shard.start
        try:
            for batch in _open(Path(path)).iter_batches(count, row_groups=groups, columns=list(columns)):
                yield {
                    name: to_column(column, f"Column {name!r} of {path}", row)
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }
                row += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{shard.place} must be readable. Received: {_one_line(error)}.") from error


def to_column(column: Any, what: str, first_row: int) -> Column:
    """Returns an Arrow array as NumPy: lists of a fixed size, and lists that happen to be of one length, are axes.

    Args:
        column: A `pyarrow.Array`.
        what: What an error calls it.
        first_row: The number of its first row, for an error.

    Raises:
        DataError: If a value is missing, or the type is none that a model takes.
    """
    import pyarrow as pa

    if column.null_count:
        row = first_row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"{what} must have a value in every row. Received: null in row {row:,}.")
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        inner = _dense(to_column(column.flatten(), what, first_row * kind.list_size), what)
        return inner.reshape(len(column), kind.list_size, *inner.shape[1:])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _dense(to_column(column.flatten(), what, first_row), what)
        lengths = np.asarray(column.value_lengths().to_numpy(zero_copy_only=False), np.int64)
        ends = np.cumsum(lengths)
        if len(set(lengths.tolist())) == 1:
            return inner.reshape(len(column), int(lengths[0]), *inner.shape[1:])
        return [inner[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
    if pa.types.is_dictionary(kind):
        return to_column(column.dictionary_decode(), what, first_row)
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


def _open(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, page_checksum_verification=True)  # of files that hold sums
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} must be a whole Parquet file. Received: {_one_line(error)}.") from error


def _runs(rows: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Returns runs of row groups of about `SHARD_ROWS` rows, or one larger group, and the rows of each run."""
    groups: list[int] = []
    total = 0
    for group, count in enumerate(rows):
        if groups and total + count > SHARD_ROWS:
            yield groups, total
            groups, total = [], 0
        groups.append(group)
        total += count
    if total:
        yield groups, total


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
