"""The shards of a data set: the same each time, and small enough that several wait at once."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.source import SHARD_ROWS, Column, DataError, DataSource, Rows, to_rows

_READ_ROWS = 1024
_SHARD_BYTES = 2**26
_LEAST_ROWS = 1024  # of a shard of large rows: a whole batch, as batches are by default


@dataclass(frozen=True)
class Shard:
    """Rows that one worker runs at once.

    Attributes:
        index: Its place in the plan, from 0.
        start: The number of its first row.
        rows: How many there are.
        place: Where they are, for people.
        locator: Where they are, for the source: JSON's plain values.
        fingerprint: Changes with what the rows hold, as far as that is known without reading them.
        content: The rows themselves, where no other process could read them.
    """

    index: int
    start: int
    rows: int
    place: str
    locator: Any
    fingerprint: str
    content: Rows | None = field(default=None, compare=False, repr=False)


def shards_of(source: DataSource) -> Iterator[Shard]:
    """Returns the shards in order: the parts, or pieces of one size of the rows that this process reads.

    Raises:
        DataError: If rows that this process reads cannot be read, or there are none.
    """
    start = 0
    if source.parts is not None:
        for index, part in enumerate(source.parts):
            yield Shard(index, start, part.rows, part.place, part.locator, fingerprint(part.identity))
            start += part.rows
        return
    for index, content in enumerate(_gathered(read_rows(source, source.columns))):
        rows = count(content)
        yield Shard(index, start, rows, source.name, None, _hash(content), content)
        start += rows
    if not start:
        raise DataError(f"{source.name} must have at least one row. Received: none.")


def read_rows(
    source: DataSource, columns: Sequence[str], shard: Shard | None = None, most: int = _READ_ROWS
) -> Iterator[Rows]:
    """Returns the rows of a shard, or of a source without parts, in the pieces that the source gives.

    The source chooses the pieces, of at most so many rows where it can.

    Raises:
        DataError: If they cannot be read, whatever its reader raises.
    """
    if shard is not None and shard.content is not None:
        content = shard.content
        yield from (
            {name: content[name][start : start + most] for name in columns} for start in range(0, shard.rows, most)
        )
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
        except Exception as error:  # whatever a file, a library or a pipeline raises
            raise DataError(f"{place} must be readable. Received: {first_line(error)}.") from error
        yield rows
        row += count(rows)


def travelling(source: DataSource) -> DataSource:
    """Returns what other processes need of a source: how to read a part, where they can."""
    return replace(source, parts=None, read=_not_here if source.parts is None else source.read)


def _not_here(locator: Any, most: int, columns: Sequence[str]) -> Iterator[Any]:
    raise AssertionError("the shards hold their rows")


def count(rows: Mapping[str, Column]) -> int:
    """Returns how many rows there are."""
    return len(next(iter(rows.values())))


def fingerprint(*parts: Any) -> str:
    """Returns a hash of JSON's plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def file_identity(path: Path) -> tuple[str, int, int]:
    """Returns what changes when a file does: its name, its size and the time it was written."""
    status = path.stat()
    return path.name, status.st_size, status.st_mtime_ns


def _hash(rows: Rows) -> str:
    """Returns a hash of what rows hold."""
    digest = hashlib.sha256()
    for name in sorted(rows):
        column = rows[name]
        for array in [column] if isinstance(column, np.ndarray) else column:
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes())
    return digest.hexdigest()


def _gathered(pieces: Iterable[Rows]) -> Iterator[Rows]:
    """Returns rows in pieces of one size, but for the last. Several wait at once: large rows come in smaller ones."""
    held: list[Rows] = []
    size = wanted = 0
    for piece in pieces:
        rows = count(piece)
        wanted = wanted or _shard_rows(piece, rows)
        start = 0
        while size + rows - start >= wanted:
            stop = start + wanted - size
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
