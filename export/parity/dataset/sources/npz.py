"""`.npz` files: mapped where they are stored as they are, unpacked as they are read where they are compressed."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from keras_pe.export.messages import first_line
from keras_pe.export.parity.dataset.sources.arrays import ArrayFiles, count_rows
from keras_pe.export.parity.dataset.sources.npy import check_size, parse_header, read_header
from keras_pe.export.parity.dataset.sources.source import DataError, Rows, Source
from keras_pe.export.parity.dataset.sources.streams import Stream
from keras_pe.export.results import Array

_INPUT, _OUTPUT = "inputs/", "outputs/"
_LOCAL_HEADER = 30  # bytes before the name in a zip file's entry
_READ_ROWS = 1024


def open_npz(path: Path) -> Source:
    """Opens an `.npz` file.

    Raises:
        DataError: If it is not whole or holds no array of numbers or texts. Of a compressed file that is told where it
            is read.
    """
    try:
        with zipfile.ZipFile(path) as file:
            found = {entry.filename.removesuffix(".npy").removeprefix(_INPUT): entry for entry in file.infolist()}
    except zipfile.BadZipFile as error:
        raise DataError(f"An .npz file must be whole. Received: {path} ({error}).") from error
    entries = {column: entry for column, entry in found.items() if not entry.filename.startswith(_OUTPUT)}
    if not entries:
        raise DataError(f"An .npz file must have an array for each input. Received: {path} without one.")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.values()):
        return _open_compressed(path, entries)
    members = {column: read_header(path, _data_start(path, entry)) for column, entry in entries.items()}
    for column, entry in entries.items():
        check_size(members[column], _data_start(path, entry) + entry.file_size)
    return ArrayFiles(str(path), members, [[entry.filename, entry.CRC, entry.file_size] for entry in entries.values()])


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


def _open_compressed(path: Path, entries: Mapping[str, zipfile.ZipInfo]) -> Stream:
    """Opens a file that cannot be mapped. Its columns are unpacked side by side, a piece of each at a time."""

    def pieces() -> Iterator[Rows]:
        with ExitStack() as stack:
            file = stack.enter_context(zipfile.ZipFile(path))
            columns = [_read(name, path, stack.enter_context(file.open(entry))) for name, entry in entries.items()]
            for arrays in zip(*columns, strict=True):
                yield dict(zip(entries, arrays, strict=True))

    shapes = {}
    with zipfile.ZipFile(path) as file:
        for column, entry in entries.items():
            with _unpacked(column, path), file.open(entry) as stream:
                shapes[column] = parse_header(stream, str(path))[0]
    return Stream(str(path), tuple(entries), count_rows(str(path), shapes), pieces)


def _read(column: str, path: Path, stream: IO[bytes]) -> Iterator[Array]:
    """Returns the rows of an array in pieces. One that is stored column by column is read whole for its first row."""
    with _unpacked(column, path):
        shape, dtype, order = parse_header(stream, str(path))
        count = shape[0] if order == "F" else _READ_ROWS
        for start in range(0, shape[0], count):
            part = (min(count, shape[0] - start), *shape[1:])
            content = stream.read(int(np.prod(part)) * dtype.itemsize)
            array: Array = np.ndarray(part, dtype, content, order=order)
            yield from (array[first : first + _READ_ROWS] for first in range(0, part[0], _READ_ROWS))
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
