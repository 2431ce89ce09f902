"""The connector to TFRecord files of `tf.train.Example`: one feature for each input, by name."""

import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export import DataError, DataPart, DataSource

PART_ROWS = 8192

_HEADER = 12  # bytes: the length of the record, and the checksum of the length
_FOOTER = 4  # the checksum of the record
_DTYPES = {"float_list": np.float32, "int64_list": np.int64, "bytes_list": object}


def open_records(name: str, files: Sequence[Path]) -> DataSource:
    """Opens files of records. TensorFlow reads them, and checks their sums; only the lengths are read here.

    Raises:
        DataError: If a file is not whole, or its first record is not an example.
        ImportError: If TensorFlow is not installed.
    """
    try:
        import tensorflow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "check_dataset() needs the package 'tensorflow'. Install it with: pip install 'keras-pe[export]'"
        ) from error
    parts: list[DataPart] = []
    start = 0
    for file in files:
        status = file.stat()
        for offset, size, rows in _spans(file):
            identity = [file.name, status.st_size, status.st_mtime_ns, offset, size]
            place = f"{file.name}, from byte {offset:,}"
            parts.append(DataPart(rows, place, [str(file), offset, size, start], identity))
            start += rows
    columns: tuple[str, ...] = ()
    if parts:
        (first,) = next(_records(parts[0].locator, 1))
        columns = tuple(sorted(_features(first, parts[0].place)))
    return DataSource(name, columns, _read, tuple(parts))


def _read(locator: Any, most: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    place, row = locator[0], locator[3]
    for records in _records(locator, most):
        examples = [_features(record, place) for record in records]
        yield {name: _column(examples, name, place, row) for name in columns}
        row += len(records)


def _records(locator: Any, most: int) -> Iterator[list[bytes]]:
    """Returns the records of a part, in pieces of at most `most`."""
    import tensorflow as tf

    path, offset, size, _ = locator
    with tempfile.NamedTemporaryFile(suffix=".tfrecord") as part:
        with Path(path).open("rb") as file:
            file.seek(offset)
            part.write(file.read(size))
        part.flush()
        for records in tf.data.TFRecordDataset(part.name).batch(most).as_numpy_iterator():
            yield list(records)


def _spans(file: Path) -> Iterator[tuple[int, int, int]]:
    """Returns the offset, the size in bytes and the number of records of each run of `PART_ROWS` records."""
    end = file.stat().st_size
    start = place = rows = 0
    with file.open("rb") as stream:
        while place < end:
            stream.seek(place)
            header = stream.read(_HEADER)
            length = struct.unpack("<Q", header[:8])[0] if len(header) == _HEADER else end
            if place + _HEADER + length + _FOOTER > end:
                raise DataError(
                    f"{file} must be whole TFRecords, uncompressed. Received: a record at byte {place:,} that ends "
                    f"behind the end of the file."
                )
            place += _HEADER + length + _FOOTER
            rows += 1
            if rows == PART_ROWS:
                yield start, place - start, rows
                start, rows = place, 0
    if rows:
        yield start, place - start, rows


def _features(record: bytes, place: str) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.train import Example

    try:
        return Example.FromString(record).features.feature
    except DecodeError as error:
        raise DataError(f"{place} must hold tf.train.Example. Received: a record of another type.") from error


def _column(examples: Sequence[Any], name: str, place: str, first_row: int) -> Any:
    """Returns a feature of every record; a feature of one value is a row of one value."""
    rows = []
    for row, features in enumerate(examples, first_row):
        kind = features[name].WhichOneof("kind") if name in features else None
        if kind is None:
            raise DataError(f"Every record of {place} must have the feature {name!r}. Received: row {row:,} without.")
        rows.append(np.array(list(getattr(features[name], kind).value), _DTYPES[kind]))
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else rows
