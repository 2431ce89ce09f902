"""Arrays in memory, `.npy` and `.npz` files and folders of `.npy` files, mapped: only what is used is read."""

import hashlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.parity.dataset.sources.source import SHARD_ROWS, DataError, Rows, Shard, file_identity, fingerprint
from keras_pe.export.parity.results import Array

_INPUT, _OUTPUT = "inputs/", "outputs/"
_LOCAL_HEADER = 30  # bytes before the name in a zip file's entry


@dataclass(frozen=True)
class _Member:
    """One array in a file.

    Attributes:
        path: The file.
        offset: Where its values begin.
        shape: Its shape, rows first.
        dtype: Its type, as NumPy writes it.
        order: "C" or "F".
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    order: Any

    def map(self) -> Array:
        return np.memmap(self.path, np.dtype(self.dtype), "r", self.offset, self.shape, self.order)


class ArrayFiles:
    """Arrays in files that other processes can map."""

    is_local = False

    def __init__(self, name: str, members: Mapping[str, _Member], identity: Any) -> None:
        self.name = name
        self.columns = tuple(members)
        self._members = dict(members)
        self._identity = identity
        self.rows: int | None = _count_rows(name, {column: member.shape for column, member in members.items()})

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
        self.rows: int | None = _count_rows(name, shapes)

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
    return ArrayFiles(str(path), {path.stem: _read_header(path, 0)}, file_identity(path))


def open_npy_folder(path: Path, files: list[Path]) -> ArrayFiles:
    """Opens a folder with one `.npy` file for each column."""
    members = {file.stem: _read_header(file, 0) for file in files}
    return ArrayFiles(str(path), members, [file_identity(file) for file in files])


def open_npz(path: Path) -> ArrayFiles | InMemory:
    """Opens an `.npz` file. A compressed one cannot be mapped: it is loaded."""
    try:
        with zipfile.ZipFile(path) as file:
            entries = {entry.filename.removesuffix(".npy"): entry for entry in file.infolist()}
    except zipfile.BadZipFile as error:
        raise DataError(f"An .npz file must be whole. Received: {path} ({error}).") from error
    entries = {name: entry for name, entry in entries.items() if not name.startswith(_OUTPUT)}
    if not entries:
        raise DataError(f"An .npz file must have an array for each input. Received: {path} without one.")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.values()):
        return InMemory({_column(name): _load(path, name) for name in entries}, str(path))
    members = {_column(name): _read_header(path, _data_start(path, entry)) for name, entry in entries.items()}
    for name, entry in entries.items():
        _check_size(path, members[_column(name)], _data_start(path, entry) + entry.file_size)
    return ArrayFiles(str(path), members, [[entry.filename, entry.CRC, entry.file_size] for entry in entries.values()])


def _column(name: str) -> str:
    return name.removeprefix(_INPUT)


def _load(path: Path, name: str) -> Array:
    try:
        with np.load(path, allow_pickle=False) as file:
            array: Array = file[name]
            return array
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zipfile.error) as error:
        raise DataError(f"Array {name!r} of {path} must be readable. Received: {error}.") from error
    except Exception as error:  # zlib.error, and whatever else a damaged stream makes of itself
        raise DataError(f"Array {name!r} of {path} must be readable. Received: {error}.") from error


def _data_start(path: Path, entry: zipfile.ZipInfo) -> int:
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        header = file.read(_LOCAL_HEADER)
    return (
        entry.header_offset
        + _LOCAL_HEADER
        + int.from_bytes(header[26:28], "little")
        + int.from_bytes(header[28:30], "little")
    )


def _read_header(path: Path, start: int) -> _Member:
    """Reads the header of an array that begins at a place in a file."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, is_fortran, dtype = read(file)
            offset = file.tell()
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} must hold a NumPy array. Received: {error}.") from error
    if dtype.hasobject:
        raise DataError(f"{path} must hold numbers or texts. Received: pickled objects, which are not loaded.")
    if dtype.names:
        raise DataError(f"{path} must hold numbers or texts. Received: records of {', '.join(dtype.names)}.")
    member = _Member(str(path), offset, shape, dtype.str, "F" if is_fortran else "C")
    _check_size(path, member, path.stat().st_size)
    return member


def _check_size(path: Path, member: _Member, end: int) -> None:
    size = int(np.prod(member.shape)) * np.dtype(member.dtype).itemsize
    if member.offset + size > end:
        missing = member.offset + size - end
        raise DataError(f"{path} must be whole. Received: a file that ends {missing:,} bytes too early.")


def _checked(name: str, column: str, value: Any) -> Any:
    """Returns a column as an array, or as a list of arrays where the rows differ in shape."""
    if isinstance(value, list) and len({np.shape(row) for row in value}) > 1:
        return [np.asarray(row) for row in value]
    array = np.asarray(value)
    if array.dtype.kind == "O" and not all(isinstance(text, str | bytes) for text in array.flat):
        raise DataError(f"Column {column!r} of {name} must hold numbers or texts. Received: other objects.")
    return array


def _count_rows(name: str, shapes: Mapping[str, tuple[int, ...]]) -> int:
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
