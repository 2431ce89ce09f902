"""Files of comma-separated values are read by rows, in types that hold every value of a column."""

from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.parity.data.batching import Batching, Feed
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.shards import shards_of
from keras_pe.export.parity.data.source import SHARD_ROWS, DataError

pytest.importorskip("pyarrow")


def read(path: Path, text: str | bytes) -> dict[str, np.ndarray]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (shard,) = shards_of(open_source(path))
    return shard.content


@pytest.mark.parametrize(
    ("text", "values", "dtype"),
    [
        ("a,b\n1,x\n2,y\n", [1, 2], "int64"),
        ("a;b\r\n1;0,5\r\n2;0,7\r\n", [1, 2], "int64"),
        ("a\tb\n1e-3\t0\nnan\t1\n", [1e-3, float("nan")], "float64"),
        (b"\xef\xbb\xbfa,b\n18446744073709551615,0\n", [2**64 - 1], "uint64"),
        ("a\nTrue\nfalse\n", [True, False], "bool"),
        ('a,b\n"x\ny",1\n"z, w",2\n', ["x\ny", "z, w"], "object"),
        ("a\n007\nx\n", ["007", "x"], "object"),
        ("a,b\n,1\n2,1\n", ["", "2"], "object"),
        ("a\n2020-01-01\n", ["2020-01-01"], "object"),
    ],
)
def test_a_column_has_the_first_type_that_holds_its_values(
    tmp_path: Path, text: str | bytes, values: list[object], dtype: str
) -> None:
    found = read(tmp_path / "data.csv", text)["a"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array(values, dtype))


def test_a_value_of_another_type_far_behind_the_first_rows_decides_the_type(tmp_path: Path) -> None:
    rows = 400_000
    (tmp_path / "data.csv").write_text("a,b\n" + "1,22\n" * rows + "0.5,x\n")
    source = open_source(tmp_path / "data.csv")
    assert source.rows == rows + 1
    shards = list(shards_of(source))
    assert [shard.rows for shard in shards[:-1]] == [SHARD_ROWS] * (len(shards) - 1)
    assert shards[0].content["a"].dtype == "float64"
    assert (shards[-1].content["a"][-1], shards[-1].content["b"][-1]) == (0.5, "x")


def test_a_folder_of_files_is_one_data_set(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"part{number}.csv").write_text(f"a,b\n{number},{number / 2}\n")
    (shard,) = shards_of(open_source(tmp_path))
    assert shard.content["a"].tolist() == [0, 1, 2]
    (tmp_path / "part3.csv").write_text("b,a\n1,2\n")
    with pytest.raises(DataError, match="must have one header"):
        open_source(tmp_path)


@pytest.mark.parametrize("text", ["", "1,2\n3,4\n", "a,a\n1,2\n", "a,b\n", "a,b\n1\n", b"a\n\xff\n", "a,b\n1,2,3\n"])
def test_a_file_without_a_header_or_with_unequal_rows_is_refused(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(DataError):
        read(tmp_path / "data.csv", text)


def test_a_missing_value_is_an_error_only_in_a_column_that_an_input_takes(tmp_path: Path) -> None:
    rows = read(tmp_path / "data.csv", "x,note\n1.5,\n2,good\n")
    inputs = (TensorInfo("x", ("batch", 1), "float32"),)
    (batch,) = Feed.match(inputs, Batching(), list(rows), "data").batches(0, rows)
    assert batch.inputs["x"].tolist() == [[1.5], [2.0]]
    rows = read(tmp_path / "data.csv", "x,note\n1.5,a\nNA,b\n")
    with pytest.raises(DataError, match="'NA' in row 8"):
        list(Feed.match(inputs, Batching(), list(rows), "data").batches(7, rows))
