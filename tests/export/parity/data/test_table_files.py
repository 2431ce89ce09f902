"""Row groups of Parquet and Arrow are shards, lists of a fixed size are axes, and damaged files are reported."""

import os
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from keras_pe.export.parity.data import table_files
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.shards import read_rows, shards_of
from keras_pe.export.parity.data.source import SHARD_ROWS, DataError

ROWS = 700
X = np.random.default_rng(0).standard_normal((ROWS, 6)).astype("float32")
LENGTHS = np.arange(ROWS) % 5 + 1


def table() -> pa.Table:
    image = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(X.ravel(), 3), 2)
    return pa.table(
        {
            "flat": pa.FixedSizeListArray.from_arrays(X.ravel(), 6),
            "image": image,
            "tokens": pa.array([list(range(n)) for n in LENGTHS.tolist()], pa.list_(pa.int64())),
            "text": [f"row {i} \u00fc" for i in range(ROWS)],
            "word": pa.array([f"w{i % 3}" for i in range(ROWS)]).dictionary_encode(),
            "flag": (LENGTHS > 2).tolist(),
            "score": X[:, 0].astype("float64"),
            "day": pa.array([0] * ROWS, pa.date32()),
        }
    )


def read(path: Path, *columns: str, count: int = 64) -> dict[str, list]:
    source = open_source(path)
    found: dict[str, list] = {name: [] for name in columns}
    for shard in shards_of(source):
        for rows in read_rows(source, columns, shard, count):
            for name, column in rows.items():
                assert len(column) <= count
                found[name].extend(column)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pq.write_table(table(), tmp_path / "data.parquet", row_group_size=100, write_page_checksum=True)
    return tmp_path / "data.parquet"


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_every_kind_of_column_arrives_row_by_row(path: Path, suffix: str) -> None:
    if suffix != ".parquet":
        path, codec = path.with_suffix(suffix), "lz4" if suffix == ".feather" else "uncompressed"
        feather.write_feather(table(), path, chunksize=100, compression=codec)
    found = read(path, "flat", "image", "tokens", "text", "word", "flag", "score")
    np.testing.assert_array_equal(np.stack(found["flat"]), X)
    np.testing.assert_array_equal(np.stack(found["image"]), X.reshape(ROWS, 2, 3))
    assert [row.tolist() for row in found["tokens"]] == [list(range(n)) for n in LENGTHS.tolist()]
    assert found["text"][17] == "row 17 \u00fc"
    assert found["word"][4] == "w1"
    assert [bool(flag) for flag in found["flag"]] == (LENGTHS > 2).tolist()
    np.testing.assert_array_equal(found["score"], X[:, 0])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_a_column_is_read_by_its_whole_name(tmp_path: Path, suffix: str) -> None:
    rows = pa.table({"a.b": [1, 2, 3], "a": [4, 5, 6], "b[0]": [7, 8, 9]})
    writers: dict[str, Callable[[Any, Any], None]] = {
        ".parquet": pq.write_table,
        ".arrow": feather.write_feather,
        ".csv": csv.write_csv,
    }
    path = tmp_path / f"data{suffix}"
    writers[suffix](rows, path)
    assert {name: [int(x) for x in column] for name, column in read(path, "b[0]", "a.b").items()} == {
        "b[0]": [7, 8, 9],
        "a.b": [1, 2, 3],
    }


def test_arrow_files_of_one_folder_are_shards_and_have_one_schema(tmp_path: Path) -> None:
    for name, rows in (("b", 3), ("a", 2), ("c", 0)):
        feather.write_feather(pa.table({"x": np.arange(rows)}), tmp_path / f"{name}.arrow")
    shards = list(shards_of(open_source(tmp_path)))
    assert [(shard.place, shard.start, shard.rows) for shard in shards] == [("a.arrow", 0, 2), ("b.arrow", 2, 3)]
    feather.write_feather(pa.table({"x": [0.5]}), tmp_path / "d.arrow")
    with pytest.raises(DataError, match=r"must have one schema\. Received: another one in d"):
        open_source(tmp_path)
    (tmp_path / "d.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:-9])
    with pytest.raises(DataError, match="must be readable"):
        open_source(tmp_path / "d.arrow")


def test_row_groups_are_put_together_up_to_a_shard(tmp_path: Path) -> None:
    flat = pa.table({"x": np.zeros(3 * SHARD_ROWS)})
    pq.write_table(flat, tmp_path / "small.parquet", row_group_size=SHARD_ROWS // 4)
    pq.write_table(flat, tmp_path / "large.parquet", row_group_size=2 * SHARD_ROWS)
    source = open_source(tmp_path)
    shards = list(shards_of(source))
    assert source.rows == sum(shard.rows for shard in shards) == 6 * SHARD_ROWS
    assert [shard.start for shard in shards] == np.cumsum([0, *(shard.rows for shard in shards[:-1])]).tolist()
    assert [shard.rows // SHARD_ROWS for shard in shards] == [2, 1, 1, 1, 1]
    assert shards[2].place == "small.parquet, row group 0-3"


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_large_row_group_is_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(table_files, "_PIECE_ROWS", 300)
    write = pq.write_table if suffix == ".parquet" else feather.write_feather
    write(pa.table({"x": np.arange(1000)}), tmp_path / f"data{suffix}")
    source = open_source(tmp_path / f"data{suffix}")
    shards = list(shards_of(source))
    assert [shard.rows for shard in shards] == [300, 300, 300, 100]
    assert len({shard.fingerprint for shard in shards}) == 4
    found = [rows["x"] for shard in shards for rows in read_rows(source, ["x"], shard, 128)]
    np.testing.assert_array_equal(np.concatenate(found), np.arange(1000))


def damage_table(path: Path, kind: str) -> Path:
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:-200])
    elif kind == "text":
        path.write_text("x,y\n1,2\n" * 10)
    elif kind == "schemas":
        pq.write_table(pa.table({"other": [1]}), path.with_name("more.parquet"))
        return path.parent
    elif kind == "empty":
        pq.write_table(table()[:0], path)
    return path


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("truncated", "must be readable"),
        ("text", "must be readable"),
        ("schemas", "must have one schema. Received: another one in more"),
        ("empty", "at least one row"),
    ],
)
def test_a_damaged_file_is_told_before_anything_runs(path: Path, kind: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        open_source(damage_table(path, kind))


def test_a_damaged_page_is_told_where_it_stands(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[200:1200] = bytes(1000)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"data\.parquet, row group 0-6 must be readable"):
        read(path, "flat")


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (pa.array([1.0, None, 3.0]), "a value in every row. Received: null in row 1"),
        (pa.array([[1.0], [2.0, None], [3.0]]), "Received: null in row 1"),
        (pa.array([[1.0, 2.0], [3.0, None]], pa.list_(pa.float64(), 2)), "Received: null in row 1"),
        (pa.array([[[1.0], [2.0]], [[3.0, 4.0], [None]]]), "Received: null in row 1"),
        (pa.array([0, 1, 2], pa.date32()), "numbers, texts or lists of them. Received: date32"),
        (pa.array([{"a": 1}] * 3), "Received: struct"),
        (pa.array([[[1], [2, 3]]] * 3), "lists of one length inside lists"),
    ],
)
def test_a_column_that_no_model_takes_is_told(tmp_path: Path, column: pa.Array, sentence: str) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "data.parquet")
    with pytest.raises(DataError, match=sentence):
        read(tmp_path / "data.parquet", "x")


def test_a_row_group_is_decoded_in_pieces(tmp_path: Path) -> None:
    rows = pa.FixedSizeListArray.from_arrays(np.zeros(64 * 2**16, "float32"), 2**16)
    pq.write_table(pa.table({"x": rows}), tmp_path / "x.parquet", use_dictionary=False, data_page_size=2**16)
    source = open_source(tmp_path / "x.parquet")
    (shard,) = shards_of(source)
    before = pa.total_allocated_bytes()
    piece = next(read_rows(source, ("x",), shard, 4))
    assert len(piece["x"]) == 4
    assert pa.total_allocated_bytes() - before < rows.nbytes / 4


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_path_that_is_not_utf8_is_refused_with_a_way_out(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / os.fsdecode(b"latin-\xfc" + suffix.encode())
    path.write_text("x\n1\n")
    with pytest.raises(DataError, match="Rename"):
        open_source(path)


@pytest.mark.parametrize("value", [date(2020, 1, 1), datetime(2020, 1, 1), Decimal("1.25"), {"a": 1}])
def test_a_column_of_another_type_is_refused_with_a_way_out(tmp_path: Path, value: object) -> None:
    pq.write_table(pa.table({"x": [value]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="Cast the column"):
        read(tmp_path / "x.parquet", "x")
