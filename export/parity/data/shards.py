"""Divides a data set into shards that are equal in each run, and of which several fit in memory."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.pieces import count, divide, join, regroup
from keras_pe.export.parity.data.source import (
    SHARD_ROWS,
    DataError,
    DataSource,
    Rows,
    byte_count,
    rows_within,
    to_rows,
)

_READ_ROWS = 1024
_SHARD_BYTES = 2**26


@dataclass(frozen=True)
class Shard:
    """Rows that one worker runs at once.

    Attributes:
        index: Index in the plan, from 0.
        start: Number of the first row.
        rows: Number of rows.
        place: Location of the rows, as text for people.
        locator: Location of the rows, as JSON values for the source.
        fingerprint: A hash that changes with the content of the rows, as far as it is known without reading them.
        content: The rows, if no other process can read them.
    """

    index: int
    start: int
    rows: int
    place: str
    locator: Any
    fingerprint: str
    content: Rows | None = field(default=None, compare=False, repr=False)


def shards_of(source: DataSource) -> Iterator[Shard]:
    """Yields the shards in order: the parts of the source, or pieces of equal size if only this process can read.

    Raises:
        DataError: If this process cannot read the rows, or there are no rows.
    """
    start = 0
    if source.parts is not None:
        for index, part in enumerate(source.parts):
            yield Shard(index, start, part.rows, part.place, part.locator, fingerprint(part.identity))
            start += part.rows
        return
    for index, content in enumerate(_gather(read_rows(source, source.columns))):
        rows = count(content)
        yield Shard(index, start, rows, source.name, None, _hash(content), content)
        start += rows
    if not start:
        raise DataError(f"{source.name} must have at least one row. Received: none.")


def read_rows(
    source: DataSource, columns: Sequence[str], shard: Shard | None = None, most: int = _READ_ROWS
) -> Iterator[Rows]:
    """Yields the rows of a shard, or of a source without parts, in pieces of the source's choice.

    A piece has at most `most` rows if the source can limit them.

    Raises:
        DataError: If the rows cannot be read, for any error of the reader.
    """
    if shard is not None and shard.content is not None:
        yield from divide({name: shard.content[name] for name in columns}, most)
        return
    row, place = (0, source.name) if shard is None else (shard.start, shard.place)
    pieces = iter(source.read(None if shard is None else shard.locator, most, columns))
    while True:
        try:
            piece = next(pieces, None)
            if piece is None:
                return
            rows = to_rows(piece, columns, source.name, row)
        except DataError:
            raise
        except Exception as error:  # files, libraries and pipelines raise errors of any type
            raise DataError(f"{place} must be readable. Received: {first_line(error)}.") from error
        yield rows
        row += count(rows)


def without_parts(source: DataSource) -> DataSource:
    """Returns a source for other processes, with the function that reads a part, without the list of parts."""
    return replace(source, parts=None, read=_not_here if source.parts is None else source.read)


def _not_here(locator: Any, most: int, columns: Sequence[str]) -> Iterator[Any]:
    raise AssertionError("the shards hold their rows")


def fingerprint(*parts: Any) -> str:
    """Returns a hash of JSON values. Numbers of NumPy count as those of Python."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=_python_number).encode()).hexdigest()


def _python_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise DataError(f"The identity of a part must be JSON values. Received: {value!r:.80}.")


def file_identity(path: Path) -> tuple[str, int, int]:
    """Returns the name, the size and the modification time of a file, which change with the file."""
    status = path.stat()
    return path.name, status.st_size, status.st_mtime_ns


def _hash(rows: Rows) -> str:
    """Returns a hash of the content of rows."""
    digest = hashlib.sha256()
    for name in sorted(rows):
        column = rows[name]
        for array in [column] if isinstance(column, np.ndarray) else column:
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes())
    return digest.hexdigest()


def _gather(pieces: Iterator[Rows]) -> Iterator[Rows]:
    """Yields rows in pieces of equal size, except the last. Large rows come in smaller pieces, to limit the memory."""
    if (first := next(pieces, None)) is not None:
        row_bytes = sum(map(byte_count, first.values())) // max(1, count(first))
        sizes = repeat(rows_within(SHARD_ROWS, row_bytes, _SHARD_BYTES))
        yield from map(join, regroup(chain([first], pieces), sizes))
