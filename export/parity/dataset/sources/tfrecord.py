"""TFRecord files of `tf.train.Example`: a feature to an input by name."""

import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.dependencies import require
from keras_pe.export.messages import first_line
from keras_pe.export.parity.dataset.sources.source import (
    SHARD_ROWS,
    Column,
    DataError,
    Rows,
    Shard,
    file_identity,
    fingerprint,
)

_HEADER = 12  # bytes: the length of the record, and the checksum of the length
_FOOTER = 4  # the checksum of the record


class TFRecordFiles:
    """Files of records. TensorFlow reads them, and checks their sums; only the lengths are read here."""

    is_local = False

    def __init__(self, name: str, files: Sequence[Path]) -> None:
        require("check_dataset", "tensorflow", extra="export")
        self.name = name
        self._shards: list[Shard] = []
        start = 0
        for file in files:
            for offset, size, rows in _spans(file):
                place = f"{file.name}, from byte {offset:,}"
                mark = fingerprint(file_identity(file), offset, size)
                self._shards.append(Shard(len(self._shards), start, rows, place, [str(file), offset, size], mark))
                start += rows
        if not start:
            raise DataError(f"{name} must have at least one row. Received: none.")
        self.rows: int | None = start
        first = next(self._records(self._shards[0], 1))
        self.columns = tuple(sorted(_example(first[0], self._shards[0].place).features.feature))

    def shards(self) -> Iterator[Shard]:
        yield from self._shards

    def read(self, shard: Shard, count: int, columns: Sequence[str]) -> Iterator[Rows]:
        row = shard.start
        for records in self._records(shard, count):
            examples = [_example(record, shard.place).features.feature for record in records]
            yield {name: _column(examples, name, shard.place, row) for name in columns}
            row += len(records)

    def _records(self, shard: Shard, count: int) -> Iterator[list[bytes]]:
        """Returns the records of a shard, in pieces of at most `count`."""
        import tensorflow as tf

        path, offset, size = shard.locator
        with tempfile.NamedTemporaryFile(suffix=".tfrecord") as part:
            with Path(path).open("rb") as file:
                file.seek(offset)
                part.write(file.read(size))
            part.flush()
            try:
                for records in tf.data.TFRecordDataset(part.name).batch(count).as_numpy_iterator():
                    yield list(records)
            except tf.errors.OpError as error:
                raise DataError(f"{shard.place} must be whole records. Received: {first_line(error)}.") from error


def _spans(file: Path) -> Iterator[tuple[int, int, int]]:
    """Returns the offset, the size in bytes and the number of records of each run of `SHARD_ROWS` records."""
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
            if rows == SHARD_ROWS:
                yield start, place - start, rows
                start, rows = place, 0
    if rows:
        yield start, place - start, rows


def _example(record: bytes, place: str) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.train import Example

    try:
        return Example.FromString(record)
    except DecodeError as error:
        raise DataError(f"{place} must hold tf.train.Example. Received: a record that is none.") from error


def _column(examples: Sequence[Any], name: str, place: str, first_row: int) -> Column:
    """Returns a feature of every record; a feature of one value is a row of one value."""
    rows = []
    for row, features in enumerate(examples, first_row):
        kind = features[name].WhichOneof("kind") if name in features else None
        if kind is None:
            raise DataError(f"Every record of {place} must have the feature {name!r}. Received: row {row:,} without.")
        values = getattr(features[name], kind).value
        dtype = {"float_list": np.float32, "int64_list": np.int64, "bytes_list": object}[kind]
        rows.append(np.array(list(values), dtype))
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else rows
