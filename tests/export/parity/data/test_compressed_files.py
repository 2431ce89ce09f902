"""Compressed `.npz` files are unpacked as they are read: a shard at a time, and no more is held."""

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.parity.data import shards
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.shards import shards_of
from keras_pe.export.parity.data.source import DataError

ROWS, WIDTH = 40_000, 64


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 2000)


@pytest.mark.slow
def test_no_more_than_a_shard_is_held_of_a_compressed_file(tmp_path: Path) -> None:
    rows = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    np.savez_compressed(tmp_path / "x.npz", x=rows)
    tracemalloc.start()
    try:
        for shard in shards_of(open_source(tmp_path / "x.npz")):
            np.testing.assert_array_equal(shard.content["x"], rows[shard.start : shard.start + shard.rows])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A shard is a twentieth. Two are there at once, one in pieces and joined, and what the comparison takes.
    assert peak < rows.nbytes / 2


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(15_000.0).reshape(5000, 3)),
        np.array([f"row {i}" for i in range(5000)]),
        np.arange(5000) % 2 == 0,
        np.zeros((5000, 0)),
        np.arange(20_000, dtype=">i4").reshape(5000, 2, 2),
    ],
    ids=["column by column", "texts", "flags", "nothing a row", "another byte order"],
)
def test_every_kind_of_array_comes_back_as_it_was(tmp_path: Path, array: np.ndarray) -> None:
    np.savez_compressed(tmp_path / "x.npz", **{"inputs/x": array, "outputs/y": np.zeros(3), "ids": np.arange(5000)})
    source = open_source(tmp_path / "x.npz")
    assert (source.rows, set(source.columns)) == (5000, {"x", "ids"})
    found = [shard.content for shard in shards_of(source)]
    np.testing.assert_array_equal(np.concatenate([rows["x"] for rows in found]), array)
    np.testing.assert_array_equal(np.concatenate([rows["ids"] for rows in found]), np.arange(5000))


@pytest.mark.slow
def test_an_array_that_is_read_whole_does_not_unpack_to_far_more_than_its_file(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((2**23, 5), np.float32, order="F"))
    with pytest.raises(DataError, match="unpacks to"):
        open_source(tmp_path / "x.npz")


def test_a_checksum_that_does_not_hold_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros((3, 2)))
    with zipfile.ZipFile(path) as file:
        checksum = file.infolist()[0].CRC.to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(checksum, bytes(4)))
    with pytest.raises(DataError, match=r"Array 'x' of .* must be readable. Received: Bad CRC-32"):
        list(shards_of(open_source(path)))
