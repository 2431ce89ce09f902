"""`.npz` files: mapped where they are stored as they are, unpacked as they are read where they are compressed."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.array_files import check_size, mapped_arrays, parse_header, read_header
from keras_pe.export.parity.data.columns import count_rows
from keras_pe.export.parity.data.source import DataError, DataSource, Rows
from keras_pe.export.results import Array

_INPUT, _OUTPUT = "inputs/", "outputs/"
_LOCAL_HEADER = 30  # bytes before the name in a zip file's entry


def open_npz(name: str, files: Sequence[Path]) -> DataSource:
    """Opens one `.npz` file.

    Raises:
        DataError: If it is not whole or holds no array of numbers or texts. Of a compressed file that is told where it
            is read.
    """
    if len(files) > 1:
        raise DataError(f"A folder of data must hold .npy files, or others of one kind. Received: {name} with .npz.")
    (path,) = files
    with zipfile.ZipFile(path) as file:
        found = {entry.filename.removesuffix(".npy").removeprefix(_INPUT): entry for entry in file.infolist()}
    entries = {column: entry for column, entry in found.items() if not entry.filename.startswith(_OUTPUT)}
    if not entries:
        raise DataError(f"An .npz file must have an array for each input. Received: {path} without one.")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.values()):
        return _open_compressed(path, entries)
    members = {column: read_header(path, _data_start(path, entry)) for column, entry in entries.items()}
    for column, entry in entries.items():
        check_size(members[column], _data_start(path, entry) + entry.file_size)
    return mapped_arrays(name, members, [[entry.filename, entry.CRC, entry.file_size] for entry in entries.values()])


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


def _open_compressed(path: Path, entries: Mapping[str, zipfile.ZipInfo]) -> DataSource:
    """Opens a file that cannot be mapped."""
    shapes = {}
    with zipfile.ZipFile(path) as file:
        for column, entry in entries.items():
            with _unpacked(column, path), file.open(entry) as stream:
                shapes[column] = parse_header(stream, str(path))[0]
    rows = count_rows(str(path), shapes)
    return DataSource(str(path), tuple(entries), partial(_unpack, path, entries), rows=rows)


def _unpack(
    path: Path, entries: Mapping[str, zipfile.ZipInfo], locator: Any, most: int, columns: Sequence[str]
) -> Iterator[Rows]:
    """Returns the columns side by side, a piece of each at a time."""
    with ExitStack() as stack:
        file = stack.enter_context(zipfile.ZipFile(path))
        streams = {name: stack.enter_context(file.open(entries[name])) for name in columns}
        pieces = [_read(name, path, stream, most) for name, stream in streams.items()]
        for arrays in zip(*pieces, strict=True):
            yield dict(zip(columns, arrays, strict=True))


def _read(column: str, path: Path, stream: IO[bytes], most: int) -> Iterator[Array]:
    """Returns the rows of an array in pieces. One that is stored column by column is read whole for its first row."""
    with _unpacked(column, path):
        shape, dtype, order = parse_header(stream, str(path))
        count = shape[0] if order == "F" else most
        for start in range(0, shape[0], count):
            part = (min(count, shape[0] - start), *shape[1:])
            content = stream.read(int(np.prod(part)) * dtype.itemsize)
            array: Array = np.ndarray(part, dtype, content, order=order)
            yield from (array[first : first + most] for first in range(0, part[0], most))
        stream.read(1)  # behind the end the checksum is compared


@contextmanager
def _unpacked(column: str, path: Path) -> Iterator[None]:
    """Says which array is damaged, in whatever way the stream says it."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # zlib.error, and whatever else a damaged stream makes of itself
        raise DataError(f"Array {column!r} of {path} must be readable. Received: {first_line(error)}.") from error
