"""TFRecord: features are columns, ranges of records are shards, and TensorFlow checks the sums."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export import DataError
from keras_pe.export.connectors import tfrecord
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.shards import read_rows, shards_of

ROWS = 25


def example(row: int) -> bytes:
    features = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[row, row + 0.5])),
        "tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=range(row % 3 + 1))),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[f"row {row}".encode()])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tfrecord, "PART_ROWS", 10)
    with tf.io.TFRecordWriter(str(tmp_path / "data.tfrecord")) as writer:
        for row in range(ROWS):
            writer.write(example(row))
    return tmp_path / "data.tfrecord"


def test_records_arrive_in_their_shards(path: Path) -> None:
    source = open_source(path)
    assert source.columns == ("text", "tokens", "x")
    shards = list(shards_of(source))
    assert [(shard.start, shard.rows) for shard in shards] == [(0, 10), (10, 10), (20, 5)]
    pieces = [rows for shard in shards for rows in read_rows(source, ("x", "tokens", "text"), shard, 4)]
    np.testing.assert_array_equal(np.concatenate([rows["x"] for rows in pieces])[:, 0], np.arange(ROWS))
    assert [len(row) for rows in pieces for row in rows["tokens"]] == [row % 3 + 1 for row in range(ROWS)]
    assert pieces[0]["text"][3].tolist() == [b"row 3"]


def test_a_file_that_ends_early_is_told_from_its_lengths(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match="ends behind the end of the file"):
        open_source(path)


def test_a_flipped_bit_is_told_by_its_sum(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)
    source = open_source(path)
    *_, last = shards_of(source)
    with pytest.raises(DataError, match=r"from byte .* must be readable"):
        list(read_rows(source, ("x",), last))


def test_a_missing_feature_is_told_with_its_row(path: Path) -> None:
    source = open_source(path)
    first = next(iter(shards_of(source)))
    with pytest.raises(DataError, match=r"the feature 'y'.* row 0 without"):
        list(read_rows(source, ("y",), first))


def test_records_of_something_else_are_told(tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "data.tfrecord")) as writer:
        writer.write(b"\xff\xff no example")
    with pytest.raises(DataError, match=r"must hold tf\.train\.Example"):
        open_source(tmp_path / "data.tfrecord")
