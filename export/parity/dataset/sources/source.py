"""What a data set is to a check: rows under named columns, in shards that can be read one by one."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from keras_pe.export.results import Array

Column = Array | list[Array]
"""The rows of a column: one array with the rows first, or a list of arrays where their shapes differ."""

Rows = dict[str, Column]

SHARD_ROWS = 8192
"""Rows of a shard, where the file does not decide it."""


class DataError(ValueError):
    """The data set cannot be read, or does not fit the model. The message says what to do."""


@dataclass(frozen=True)
class Shard:
    """Rows that stand together.

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


class Source(Protocol):
    """A data set. It travels to other processes by pickle, so it holds paths and not what they lead to.

    Attributes:
        name: What the report calls it.
        columns: The names of its columns.
        rows: How many rows it has; None where only reading tells.
        is_local: Whether only this process can read it: its shards hold their rows then.
    """

    name: str
    columns: tuple[str, ...]
    rows: int | None
    is_local: bool

    def shards(self) -> Iterator[Shard]:
        """Returns the shards in order, the same each time as long as the data is the same."""
        ...

    def read(self, shard: Shard, count: int, columns: Sequence[str]) -> Iterator[Rows]:
        """Returns the rows of a shard without content, in pieces of at most `count`: of these columns, at least."""
        ...


def split(rows: Rows, count: int) -> Iterator[Rows]:
    """Returns rows in pieces of at most `count`."""
    total = len(next(iter(rows.values())))
    for start in range(0, total, count):
        yield {name: column[start : start + count] for name, column in rows.items()}


def fingerprint(*parts: Any) -> str:
    """Returns a hash of JSON's plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def file_identity(path: Path) -> tuple[str, int, int]:
    """Returns what changes when a file does: its name, its size and the time it was written."""
    status = path.stat()
    return path.name, status.st_size, status.st_mtime_ns
