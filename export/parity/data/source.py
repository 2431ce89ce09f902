"""What a data set is to a check: rows under named columns, which any process can read, or this one only."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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
