"""Data sets of libraries: batches of any size become shards of one, and targets are left out."""

from importlib.metadata import EntryPoint
from typing import Any

import datasets
import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export import DataError, DataSource
from keras_pe.export.parity import plugins
from keras_pe.export.parity.data import shards as plan
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.shards import shards_of
from keras_pe.export.parity.data.source import Rows

X = np.arange(50, dtype=np.float32).reshape(25, 2)


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SHARD_ROWS", 10)


def contents(source: DataSource) -> list[Rows]:
    shards = list(shards_of(source))
    assert [shard.rows for shard in shards] == [10, 10, 5]
    assert [shard.start for shard in shards] == [0, 10, 20]
    assert [shard.fingerprint for shard in shards] == [shard.fingerprint for shard in shards_of(source)]
    return [shard.content for shard in shards if shard.content is not None]


class Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> Any:
        return {"x": X[3 * index : 3 * index + 3]}, X[3 * index : 3 * index + 3, 0]


@pytest.mark.parametrize(
    ("data", "column"),
    [
        (tf.data.Dataset.from_tensor_slices({"x": X}).batch(4), "x"),
        (tf.data.Dataset.from_tensor_slices(({"x": X}, X[:, 0])).batch(7), "x"),
        (tf.data.Dataset.from_tensor_slices((X, X[:, 0])).batch(25), "inputs"),
        (tf.data.Dataset.from_tensor_slices(((X, X[:, 0]), X[:, 0])).batch(4), "part 0"),
        (Batches(), "x"),
        (datasets.Dataset.from_dict({"x": X.tolist(), "label": X[:, 0].tolist()}), "x"),
    ],
    ids=["mapping", "with targets", "one array", "several", "PyDataset", "Hugging Face"],
)
def test_rows_come_in_order_in_shards_of_one_size(data: Any, column: str) -> None:
    source = open_source(data)
    assert column in source.columns
    np.testing.assert_array_equal(np.concatenate([rows[column] for rows in contents(source)]), X)


def test_rows_of_several_lengths_stay_what_they_are() -> None:
    lengths = [row % 3 + 1 for row in range(25)]
    ragged = tf.ragged.constant([[row] * length for row, length in enumerate(lengths)])
    found = contents(open_source(tf.data.Dataset.from_tensor_slices({"x": ragged}).ragged_batch(4)))
    assert [len(row) for rows in found for row in rows["x"]] == lengths


def test_a_column_of_dates_is_no_input_and_no_error() -> None:
    import datetime

    data = datasets.Dataset.from_dict({"x": [1.0, 2.0], "day": [datetime.datetime(2020, 1, 1)] * 2})
    source = open_source(data)
    assert (source.columns, source.rows) == (("x",), 2)
    assert [shard.rows for shard in shards_of(source)] == [2]


def test_a_data_set_without_an_end_is_refused() -> None:
    with pytest.raises(DataError, match="repeats for ever"):
        open_source(tf.data.Dataset.from_tensors(X).repeat())


def test_a_data_set_without_rows_is_refused() -> None:
    source = open_source(tf.data.Dataset.from_tensor_slices({"x": X}).batch(4).take(0))
    with pytest.raises(DataError, match="at least one row"):
        list(shards_of(source))


def test_an_error_of_a_pipeline_is_reported() -> None:
    data = tf.data.Dataset.from_tensor_slices({"x": X}).batch(4)
    broken = data.map(lambda batch: {"x": tf.debugging.check_numerics(tf.math.log(-batch["x"]), "not a number")})
    with pytest.raises(DataError, match="must be readable"):
        list(shards_of(open_source(broken)))


def test_large_rows_come_in_smaller_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_SHARD_BYTES", 5 * X[0].nbytes)
    shards = list(shards_of(open_source(tf.data.Dataset.from_tensor_slices({"x": X}).batch(4))))
    assert [shard.rows for shard in shards] == [5] * 5
    monkeypatch.setattr(plan, "_SHARD_BYTES", X[0].nbytes // 2)  # a shard has one row at least
    shards = list(shards_of(open_source(tf.data.Dataset.from_tensor_slices({"x": X}).batch(4))))
    assert [shard.rows for shard in shards] == [1] * 25
    np.testing.assert_array_equal(np.concatenate([shard.content["x"] for shard in shards]), X)


class Table:
    """A data set of a package that nobody here knows."""

    rows = X


def open_table(data: object) -> DataSource | None:
    """Entry point of another package."""
    if not isinstance(data, Table):
        return None
    return DataSource("a table", ("x",), lambda locator, most, columns: iter([{"x": data.rows}]), rows=len(data.rows))


def test_another_package_makes_its_data_sets_known(monkeypatch: pytest.MonkeyPatch) -> None:
    package = __name__.partition(".")[0]
    entry = EntryPoint(package, f"{__name__}:open_table", plugins.DATA_SOURCES)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == plugins.DATA_SOURCES else [])
    source = open_source(Table())
    assert source.name == "a table"
    np.testing.assert_array_equal(np.concatenate([rows["x"] for rows in contents(source)]), X)
    with pytest.raises(TypeError, match=rf"with a connector: .*{package}.*Received: EntryPoint"):
        open_source(entry)
