"""Arrays in files are mapped shard by shard, and the header alone reveals a damaged file."""

import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.shards import fingerprint, read_rows, shards_of
from keras_pe.export.parity.data.source import SHARD_ROWS, DataError, DataSource

ROWS = SHARD_ROWS + 1000
X = np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2)
IDS = np.arange(ROWS)


def read_all(source: DataSource, count: int = 300) -> dict[str, np.ndarray]:
    pieces: dict[str, list] = {name: [] for name in source.columns}
    for shard in shards_of(source):
        for rows in read_rows(source, source.columns, shard, count):
            for name, column in rows.items():
                assert len(column) <= count
                pieces[name].append(column)
    return {name: np.concatenate(found) for name, found in pieces.items()}


def save_npz(path: Path) -> None:
    np.savez(path, x=X, **{"inputs/ids": IDS, "outputs/y": X})


def save_compressed(path: Path) -> None:
    np.savez_compressed(path, x=X, ids=IDS)


def save_in_columns(path: Path) -> None:
    np.savez(path, x=np.asfortranarray(X), ids=IDS)


@pytest.mark.parametrize("save", [save_npz, save_compressed, save_in_columns])
def test_an_npz_file_gives_its_rows_in_order(tmp_path: Path, save: object) -> None:
    save(tmp_path / "data.npz")
    source = open_source(tmp_path / "data.npz")
    assert source.rows == ROWS
    found = read_all(source)
    assert set(found) == {"x", "ids"}
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["ids"], IDS)


def test_a_folder_of_npy_files_has_a_column_for_each(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "ids.npy", IDS)
    found = read_all(open_source(tmp_path))
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["ids"], IDS)


def test_a_mapping_sends_its_rows_along() -> None:
    source = open_source({"x": X, "ids": IDS})
    np.testing.assert_array_equal(read_all(source)["x"], X)
    assert source.parts is None


@pytest.mark.parametrize("lengths", [(2, 2, 2), (2, 3, 1)])
def test_a_column_of_lists_is_taken_as_its_rows(lengths: tuple[int, ...]) -> None:
    column = np.empty(3, object)  # as pandas and Ray Data hold it
    column[:] = [np.arange(length, dtype=np.float32) for length in lengths]
    (shard,) = shards_of(open_source({"x": column}))
    assert [row.tolist() for row in shard.content["x"]] == [row.tolist() for row in column]
    assert isinstance(shard.content["x"], np.ndarray) == (len(set(lengths)) == 1)


def test_the_plan_is_the_same_until_the_data_changes(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    save_npz(path)
    plan = [(shard.start, shard.rows, shard.fingerprint) for shard in shards_of(open_source(path))]
    assert [rows for _, rows, _ in plan] == [SHARD_ROWS, 1000]
    assert plan == [(shard.start, shard.rows, shard.fingerprint) for shard in shards_of(open_source(path))]
    np.savez(path, x=X + 1, ids=IDS)
    changed = [shard.fingerprint for shard in shards_of(open_source(path))]
    assert set(changed).isdisjoint(mark for _, _, mark in plan)


def test_in_memory_only_the_shard_that_changes_is_another() -> None:
    before = [shard.fingerprint for shard in shards_of(open_source({"x": X}))]
    changed = X.copy()
    changed[-1, 0] += 1
    after = [shard.fingerprint for shard in shards_of(open_source({"x": changed}))]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]


def truncate(path: Path, count: int) -> None:
    path.write_bytes(path.read_bytes()[:-count])


def damaged_data(tmp_path: Path, kind: str) -> object:
    """Returns data that is wrong in one way."""
    npz, npy = tmp_path / "data.npz", tmp_path / "x.npy"
    if kind == "truncated npz":
        np.savez(npz, x=X)
        truncate(npz, 100)
    elif kind == "no zip":
        npz.write_text("x,y\n1,2\n")
    elif kind == "empty npz":
        zipfile.ZipFile(npz, "w").close()
    elif kind == "pickled":
        np.savez(npz, x=np.array([{}, {}], object))
    elif kind == "unequal rows":
        np.savez(npz, x=X, ids=IDS[:-1])
    elif kind == "no rows":
        np.savez(npz, x=X[:0])
    elif kind == "single value":
        np.savez(npz, x=np.float32(1))
    elif kind == "no array":
        with zipfile.ZipFile(npz, "w") as file:
            file.writestr("x.npy", b"not an array at all")
    elif kind == "damaged compression":
        np.savez_compressed(npz, x=X)
        content = bytearray(npz.read_bytes())
        content[1000:1100] = bytes(100)
        npz.write_bytes(content)
    elif kind == "truncated npy":
        np.save(npy, X)
        truncate(npy, 100)
    elif kind == "records":
        np.save(npy, np.zeros(3, [("a", "f4"), ("b", "i4")]))
    elif kind == "empty folder":
        pass
    elif kind == "two kinds":
        np.save(npy, X)
        (tmp_path / "x.parquet").touch()
    elif kind == "unknown suffix":
        (tmp_path / "data.xml").touch()
        return tmp_path / "data.xml"
    elif kind == "objects in memory":
        return {"x": [object(), object()]}
    return next((path for path in (npz, npy) if path.exists() and kind != "two kinds"), tmp_path)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("truncated npz", "must be readable"),
        ("no zip", "must be readable. Received: File is not a zip file"),
        ("empty npz", "an array for each input"),
        ("pickled", "pickled objects, which are not loaded"),
        ("unequal rows", "one number of rows. Received: x 9,192, ids 9,191"),
        ("no rows", "at least one row"),
        ("single value", "must have its rows first"),
        ("no array", "must hold a NumPy array"),
        ("damaged compression", "must be readable"),
        ("truncated npy", "ends 100 bytes too early"),
        ("records", "Received: records of a, b"),
        ("empty folder", "without any"),
        ("two kinds", "data of one kind"),
        ("unknown suffix", r"end in \.arrow, \.csv, \.feather, \.npy, \.npz, \.parquet, \.tfrecord"),
        ("objects in memory", "numbers or texts"),
    ],
)
def test_damaged_data_is_reported_in_a_sentence(tmp_path: Path, kind: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        list(shards_of(open_source(damaged_data(tmp_path, kind))))  # a compressed array is reported on reading


def test_a_file_that_gets_shorter_while_it_is_read_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=X)
    source = open_source(tmp_path / "data.npz")
    assert source.parts is not None
    *_, last = shards_of(source)
    truncate(tmp_path / "data.npz", 1000)
    with pytest.raises(DataError, match=r"data\.npz must be readable"):
        list(read_rows(source, ("x",), last))


def test_nothing_at_the_path_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="`data` must be a path that exists"):
        open_source(tmp_path / "missing.npz")


def test_a_path_without_data_is_refused() -> None:
    with pytest.raises(TypeError, match="Received: int"):
        open_source(3)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_file_with_two_arrays_of_one_input_is_refused(tmp_path: Path, save: object) -> None:
    save(tmp_path / "data.npz", **{"x": X, "inputs/x": X})
    with pytest.raises(DataError, match="'x' and 'inputs/x'"):
        open_source(tmp_path / "data.npz")


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, "datetime64[s]", "c8"])
def test_rows_in_memory_of_any_type_have_a_fingerprint(dtype: object) -> None:
    arrays = [np.zeros((3, 2)).astype(dtype), np.ones((3, 2)).astype(dtype)]
    found = [next(shards_of(open_source({"x": array}))).fingerprint for array in (*arrays, arrays[0])]
    assert found[0] == found[2] != found[1]


def test_a_part_may_be_identified_by_numbers_of_numpy() -> None:
    assert fingerprint([np.int64(5), np.float32(0.5)]) == fingerprint([5, 0.5])
    with pytest.raises(DataError, match="JSON values"):
        fingerprint([object()])
