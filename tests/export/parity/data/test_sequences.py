"""Rows with one value in a column become one sequence, in order, and no shard splits a sequence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_pe.export.parity.data import sequences
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.sequences import join_sequences
from keras_pe.export.parity.data.shards import read_rows, shards_of
from keras_pe.export.parity.data.source import DataError, DataSource

LENGTHS = [5, 9, 1, 30, 9, 17]
NAMES = np.repeat([f"recording {number}" for number in range(6)], LENGTHS)
STEPS = np.random.default_rng(0).normal(size=(sum(LENGTHS), 3)).astype("float32")


def read_all(source: DataSource, column: str = "x") -> list[Any]:
    return [
        row for shard in shards_of(source) for rows in read_rows(source, (column,), shard, 2) for row in rows[column]
    ]


def save(kind: str, folder: Path) -> Any:
    """Returns the steps as data of a kind, with the name of the sequence in the column "name"."""
    if kind == "memory":
        return {"name": NAMES, "x": STEPS}
    if kind == "npz":
        np.savez(folder / "data.npz", name=NAMES, x=STEPS)
        return folder / "data.npz"
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {"name": NAMES, "x": list(STEPS)}
    for number, rows in enumerate((slice(0, 20), slice(20, None))):  # the fourth sequence goes from file to file
        table = pa.table({name: column[rows] for name, column in columns.items()})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=7)
    return folder


@pytest.mark.parametrize("kind", ["memory", "npz", "parquet"])
def test_sequences_are_whole_and_in_order_in_shards_of_any_size(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = save(kind, tmp_path)
    for size in (1, 12, 8192):
        monkeypatch.setattr(sequences, "SHARD_ROWS", size)
        source = join_sequences(open_source(data), "name")
        assert source.columns == ("x",)
        found = read_all(source)
        assert [len(each) for each in found] == LENGTHS
        assert np.array_equal(np.concatenate(found), STEPS)
        if source.parts is not None:
            assert source.rows == len(LENGTHS)
            assert len(source.parts) == {1: 6, 12: 5, 8192: 1}[size]
            assert len({str(part.identity) for part in source.parts}) == len(source.parts)


def test_rows_of_several_steps_join_to_one_sequence() -> None:
    chunks = [np.arange(3.0), np.arange(3.0, 5.0), np.arange(4.0)]
    source = join_sequences(open_source({"id": np.array([0, 0, 1]), "x": chunks}), "id")
    assert [each.tolist() for each in read_all(source)] == [[0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0]]


def test_a_missing_value_is_named_by_its_row_in_the_data_set(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for number in range(2):
        values = [1.0, 2.0, None if number else 3.0]
        pq.write_table(pa.table({"name": [number] * 3, "x": pa.array(values)}), tmp_path / f"{number}.parquet")
    with pytest.raises(DataError, match="null in row 5"):
        read_all(join_sequences(open_source(tmp_path), "name"))


@pytest.mark.parametrize("kind", ["memory", "npz"])
def test_a_sequence_in_two_places_and_a_missing_column_are_refused(kind: str, tmp_path: Path) -> None:
    data: Any = {"name": np.array([0, 1, 0]), "x": np.zeros((3, 2))}
    if kind == "npz":
        np.savez(tmp_path / "data.npz", **data)
        data = tmp_path / "data.npz"
    with pytest.raises(DataError, match="consecutive"):
        read_all(join_sequences(open_source(data), "name"))
    with pytest.raises(DataError, match="Did you mean 'name'"):
        join_sequences(open_source(data), "nam")
