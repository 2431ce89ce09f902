"""Arrays in memory, and in files that are mapped: only what is used is read."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.parity.dataset.sources.npy import StoredArray, read_header
from keras_pe.export.parity.dataset.sources.source import SHARD_ROWS, DataError, Rows, Shard, file_identity, fingerprint


class ArrayFiles:
    """Arrays in files that other processes can map."""

    is_local = False

    def __init__(self, name: str, members: Mapping[str, StoredArray], identity: Any) -> None:
        self.name = name
        self.columns = tuple(members)
        self._members = dict(members)
        self._identity = identity
        self.rows: int | None = count_rows(name, {column: member.shape for column, member in members.items()})

    def shards(self) -> Iterator[Shard]:
        assert self.rows is not None
        for index, start in enumerate(range(0, self.rows, SHARD_ROWS)):
            rows = min(SHARD_ROWS, self.rows - start)
            mark = fingerprint(self._identity, start, rows)
            yield Shard(index, start, rows, Path(self.name).name, [start, rows], mark)

    def read(self, shard: Shard, count: int, columns: Sequence[str]) -> Iterator[Rows]:
        start, rows = shard.locator
        try:
            # Mapped for this shard alone: what stays mapped counts as memory of the process.
            mapped = {name: self._members[name].map() for name in columns}
        except (OSError, ValueError) as error:
            raise DataError(f"{self.name} must be whole. Received: a file that ends early ({error}).") from error
        for first in range(start, start + rows, count):
            last = min(first + count, start + rows)
            yield {name: np.array(array[first:last]) for name, array in mapped.items()}


class InMemory:
    """A mapping of names to arrays, or to lists of arrays where the rows differ in shape. Sent to who needs it."""

    is_local = True

    def __init__(self, arrays: Mapping[str, Any], name: str = "arrays in memory") -> None:
        self.name = name
        self._arrays = {str(column): _checked(name, column, value) for column, value in arrays.items()}
        self.columns = tuple(self._arrays)
        shapes = {column: (len(value), *np.shape(value)[1:]) for column, value in self._shaped().items()}
        self.rows: int | None = count_rows(name, shapes)

    def _shaped(self) -> dict[str, Any]:
        return {column: v if isinstance(v, np.ndarray) else np.empty(len(v)) for column, v in self._arrays.items()}

    def shards(self) -> Iterator[Shard]:
        assert self.rows is not None
        for index, start in enumerate(range(0, self.rows, SHARD_ROWS)):
            content = {name: column[start : start + SHARD_ROWS] for name, column in self._arrays.items()}
            rows = min(SHARD_ROWS, self.rows - start)
            yield Shard(index, start, rows, self.name, None, hash_rows(content), content)

    def read(self, shard: Shard, count: int, columns: Sequence[str]) -> Iterator[Rows]:
        raise AssertionError("its shards hold their rows")


def hash_rows(rows: Rows) -> str:
    """Returns a hash of what rows hold."""
    digest = hashlib.sha256()
    for name in sorted(rows):
        column = rows[name]
        for array in [column] if isinstance(column, np.ndarray) else column:
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).data)
    return digest.hexdigest()


def open_npy(path: Path) -> ArrayFiles:
    """Opens one array: a column that is named as the file is."""
    return ArrayFiles(str(path), {path.stem: read_header(path, 0)}, file_identity(path))


def open_npy_folder(path: Path, files: list[Path]) -> ArrayFiles:
    """Opens a folder with one `.npy` file for each column."""
    members = {file.stem: read_header(file, 0) for file in files}
    return ArrayFiles(str(path), members, [file_identity(file) for file in files])


def _checked(name: str, column: str, value: Any) -> Any:
    """Returns a column as an array, or as a list of arrays where the rows differ in shape."""
    if isinstance(value, list) and len({np.shape(row) for row in value}) > 1:
        return [np.asarray(row) for row in value]
    array = np.asarray(value)
    if array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(row, np.ndarray | list) for row in array):
        # The rows of a column of lists, as pandas and Ray Data hold them.
        return _checked(name, column, [np.asarray(row) for row in array])
    if array.dtype.kind == "O" and not all(isinstance(text, str | bytes) for text in array.flat):
        raise DataError(f"Column {column!r} of {name} must hold numbers or texts. Received: other objects.")
    return array


def count_rows(name: str, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Returns the number of rows that all columns have.

    Raises:
        DataError: If they have none, or not one number of them.
    """
    if not shapes:
        raise DataError(f"{name} must have a column for each input. Received: no column.")
    for column, shape in shapes.items():
        if not shape:
            raise DataError(f"Column {column!r} of {name} must have its rows first. Received: a single value.")
    counts = {shape[0] for shape in shapes.values()}
    if len(counts) > 1:
        found = ", ".join(f"{column} {shape[0]:,}" for column, shape in shapes.items())
        raise DataError(f"The columns of {name} must have one number of rows. Received: {found}.")
    if counts == {0}:
        raise DataError(f"{name} must have at least one row. Received: none.")
    return counts.pop()
