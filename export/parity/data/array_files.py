"""Opens arrays in memory and in NumPy's files, and reads only the used part.

A `.npy` file and an uncompressed `.npz` file are memory-mapped. A compressed file is decompressed while it is read.
"""

import math
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from keras_pe.export.artifacts.zip_files import check_ratio
from keras_pe.export.comparison.inputs.cases import OUTPUT, member_of_input
from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.shards import file_identity
from keras_pe.export.parity.data.source import (
    SHARD_ROWS,
    Column,
    DataError,
    DataPart,
    DataSource,
    Rows,
    count_rows,
    rows_within,
    to_column,
)
from keras_pe.export.results import Array

_LOCAL_HEADER = struct.Struct("<26x2H")  # lengths of an entry's name and extra field in the local header of a zip file


@dataclass(frozen=True)
class _StoredArray:
    """One array in a file, rows first: the arguments of `np.memmap`, with the offset of the first value in bytes."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    order: Literal["C", "F"]

    def map(self) -> Array:
        """Returns the array without reading it."""
        return np.memmap(self.path, np.dtype(self.dtype), "r", self.offset, self.shape, self.order)


def _read_header(path: Path, start: int = 0, end: int | None = None) -> _StoredArray:
    """Returns the array between two positions of a file; reads the header only."""
    with path.open("rb") as file:
        file.seek(start)
        shape, dtype, order = _parse_header(file, str(path))
        array = _StoredArray(str(path), file.tell(), shape, dtype.str, order)
    size = path.stat().st_size
    missing = array.offset + math.prod(shape) * dtype.itemsize - min(size if end is None else end, size)
    if missing > 0:
        raise DataError(f"{path} must be whole. Received: a file that ends {missing:,} bytes too early.")
    return array


def _parse_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], Any, Literal["C", "F"]]:
    """Returns the shape, the type and the order ("C" or "F") from the header at the stream's position."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
    except (ValueError, EOFError) as error:
        raise DataError(f"{name} must hold a NumPy array. Received: {error}.") from error
    if dtype.hasobject:
        raise DataError(f"{name} must hold numbers or texts. Received: pickled objects, which are not loaded.")
    if dtype.names:
        raise DataError(f"{name} must hold numbers or texts. Received: records of {', '.join(dtype.names)}.")
    return shape, dtype, "F" if is_fortran else "C"


def open_mapping(arrays: Mapping[str, Any], name: str = "arrays in memory") -> DataSource:
    """Opens a mapping of names to arrays, or to lists of arrays if the rows differ in shape."""
    found = {str(column): to_column(value, f"Column {column!r} of {name}") for column, value in arrays.items()}
    shapes = {column: rows.shape if isinstance(rows, np.ndarray) else (len(rows),) for column, rows in found.items()}
    return DataSource(name, tuple(found), partial(_all_at_once, found), rows=count_rows(name, shapes))


def _all_at_once(arrays: Mapping[str, Column], locator: Any, most: int, columns: Sequence[str]) -> Iterator[Rows]:
    yield {name: arrays[name] for name in columns}


def open_npy(name: str, files: Sequence[Path]) -> DataSource:
    """Opens `.npy` files. Each file is a column with the name of the file."""
    members = {file.stem: _read_header(file) for file in files}
    return _mapped_arrays(name, members, [file_identity(file) for file in files])


def _mapped_arrays(name: str, members: Mapping[str, _StoredArray], identity: Any) -> DataSource:
    """Returns the source of arrays in files that every process can map; `identity` changes with their content."""
    total = count_rows(name, {column: member.shape for column, member in members.items()})
    ranges = [(start, min(SHARD_ROWS, total - start)) for start in range(0, total, SHARD_ROWS)]
    place = Path(name).name
    parts = tuple(DataPart(rows, place, [start, rows], [identity, start, rows]) for start, rows in ranges)
    return DataSource(name, tuple(members), partial(_read_mapped, members), parts)


def _read_mapped(
    members: Mapping[str, _StoredArray], locator: Any, most: int, columns: Sequence[str]
) -> Iterator[Rows]:
    start, rows = locator
    mapped = {name: members[name].map() for name in columns}  # for this part only, since mapped pages count as memory
    most = rows_within(most, sum(array.nbytes // len(array) for array in mapped.values()))
    for first in range(start, start + rows, most):
        last = min(first + most, start + rows)
        yield {name: np.array(array[first:last]) for name, array in mapped.items()}


def open_npz(name: str, files: Sequence[Path]) -> DataSource:
    """Opens one `.npz` file.

    Raises:
        DataError: If the file is truncated or has no array of numbers or texts. A compressed file raises it on reading.
    """
    if len(files) > 1:
        raise DataError(f"A folder of data must hold .npy files, or others of one kind. Received: {name} with .npz.")
    (path,) = files
    with zipfile.ZipFile(path) as file:
        found = [(entry.filename.removesuffix(".npy"), entry) for entry in file.infolist()]
    given = [(name, entry) for name, entry in found if not name.startswith(OUTPUT)]
    try:
        members = member_of_input((name for name, _ in given), path)
    except ValueError as error:
        raise DataError(str(error)) from error
    entries = {column: dict(given)[member] for column, member in members.items()}
    if not entries:
        raise DataError(f"An .npz file must have an array for each input. Received: {path} without one.")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.values()):
        return _open_compressed(path, entries)
    starts = {column: _data_start(path, entry) for column, entry in entries.items()}
    ends = {column: starts[column] + entry.file_size for column, entry in entries.items()}
    arrays = {column: _read_header(path, starts[column], ends[column]) for column in entries}
    return _mapped_arrays(name, arrays, [[entry.filename, entry.CRC, entry.file_size] for entry in entries.values()])


def _data_start(path: Path, entry: zipfile.ZipInfo) -> int:
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    return int(entry.header_offset + _LOCAL_HEADER.size + name + extra)


def _open_compressed(path: Path, entries: Mapping[str, zipfile.ZipInfo]) -> DataSource:
    """Opens a file that cannot be mapped."""
    shapes = {}
    with zipfile.ZipFile(path) as file:
        for column, entry in entries.items():
            with _unpacked(column, path), file.open(entry) as stream:
                shapes[column], dtype, order = _parse_header(stream, str(path))
                if order == "F":  # It is read whole.
                    check_ratio(entry.file_size, entry.compress_size)
                missing = stream.tell() + math.prod(shapes[column]) * dtype.itemsize - entry.file_size
            if missing > 0:
                raise DataError(f"{path} must be whole. Received: {column!r}, which ends {missing:,} bytes too early.")
    rows = count_rows(str(path), shapes)
    return DataSource(str(path), tuple(entries), partial(_unpack, path, entries, rows), rows=rows)


def _unpack(
    path: Path, entries: Mapping[str, zipfile.ZipInfo], rows: int, locator: Any, most: int, columns: Sequence[str]
) -> Iterator[Rows]:
    """Yields the rows of all columns in pieces of at most `most` rows."""
    total = sum(entries[name].file_size for name in columns)
    most = rows_within(most, total // rows)
    with ExitStack() as stack:
        file = stack.enter_context(zipfile.ZipFile(path))
        streams = {name: stack.enter_context(file.open(entries[name])) for name in columns}
        pieces = [_read(name, path, stream, most) for name, stream in streams.items()]
        for arrays in zip(*pieces, strict=True):
            yield dict(zip(columns, arrays, strict=True))


def _read(column: str, path: Path, stream: IO[bytes], most: int) -> Iterator[Array]:
    """Yields the rows of an array in pieces. An array in column order is read whole before its first row."""
    with _unpacked(column, path):
        shape, dtype, order = _parse_header(stream, str(path))
        count = shape[0] if order == "F" else most
        for start in range(0, shape[0], count):
            part = (min(count, shape[0] - start), *shape[1:])
            content = stream.read(int(np.prod(part)) * dtype.itemsize)
            array: Array = np.ndarray(part, dtype, content, order=order)
            yield from (array[first : first + most] for first in range(0, part[0], most))
        stream.read(1)  # reading past the end makes zipfile verify the checksum


@contextmanager
def _unpacked(column: str, path: Path) -> Iterator[None]:
    """Raises DataError with the name of the array for any error of its stream."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # a damaged stream raises zlib.error and many others
        raise DataError(f"Array {column!r} of {path} must be readable. Received: {first_line(error)}.") from error
