"""Every reader of every kind of file raises what it documents, whatever bytes of the file are damaged or missing."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from keras_pe.cli.exit_codes import CouldNotBeTriedError
from keras_pe.cli.start_keras import check_model_file
from keras_pe.cli.tables_in_file import tables_in
from keras_pe.export import export_litert, export_onnx, export_saved_model, read_artifact
from keras_pe.export.comparison.inputs.cases import read_case
from keras_pe.export.model import hdf5_probe
from keras_pe.export.model.saved_file import load_model
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.shards import read_rows, shards_of
from keras_pe.export.parity.data.source import DataError
from keras_pe.export.parity.npz_archive import read_archive, write_archive
from keras_pe.export.parity.work.open_models import open_model_file
from tests.samples import sample_cases

X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


def read_all(path: Path) -> None:
    source = open_source(path)
    for shard in shards_of(source):
        for _ in read_rows(source, source.columns, shard):
            pass


class Reader(NamedTuple):
    """A reader, the suffix of its file, and the errors that it documents."""

    suffix: str
    read: Callable[[Path], Any]
    raises: type[Exception] = ValueError


READERS = [
    Reader(".keras", load_model),
    Reader(".keras", open_model_file),
    Reader(".keras", check_model_file, CouldNotBeTriedError),
    Reader(".keras", tables_in, CouldNotBeTriedError),
    Reader(".h5", load_model),
    Reader(".h5", open_model_file),
    Reader(".h5", check_model_file, CouldNotBeTriedError),
    Reader(".h5", tables_in, CouldNotBeTriedError),
    Reader(".onnx", read_artifact),
    Reader(".onnx", lambda path: read_artifact(path).contents),
    Reader(".onnx", tables_in, CouldNotBeTriedError),
    Reader(".tflite", read_artifact),
    Reader(".pb", lambda path: read_artifact(path.parent)),
    Reader(".npz", read_case),
    Reader(".npz", read_all, DataError),
    Reader(".npz", tables_in, CouldNotBeTriedError),
    Reader(".compressed.npz", read_case),
    Reader(".compressed.npz", read_all, DataError),
    Reader(".npy", read_all, DataError),
    Reader(".npy", tables_in, CouldNotBeTriedError),
    Reader(".safetensors", tables_in, CouldNotBeTriedError),
    Reader(".parquet", read_all, DataError),
    Reader(".csv", read_all, DataError),
    Reader(".tfrecord", read_all, DataError),
    Reader(".bundle.npz", read_archive),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns a sound file of each kind by its suffix."""
    pq, tf = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("tensorflow")
    import pyarrow as pa

    folder = tmp_path_factory.mktemp("sound")
    found = {suffix: folder / f"file{suffix}" for suffix in {each.suffix for each in READERS}}
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(4)])
    model.save(found[".keras"])
    model.save(found[".h5"])
    export_onnx(model, found[".onnx"])
    export_litert(model, found[".tflite"])
    export_saved_model(model, folder / "saved")
    (folder / "saved" / "assets.extra" / "keras_pe.json").unlink()
    found[".pb"] = folder / "saved" / "saved_model.pb"
    np.savez(found[".npz"], x=X, text=np.array(["a"] * 20))
    np.savez_compressed(found[".compressed.npz"], x=X, text=np.array(["a"] * 20))
    np.save(found[".npy"], X)
    header = b'{"table":{"dtype":"F32","shape":[20,4],"data_offsets":[0,320]}}'
    found[".safetensors"].write_bytes(len(header).to_bytes(8, "little") + header + X.tobytes())
    pq.write_table(pa.table({"x": X[:, 0], "y": ["a"] * 20}), found[".parquet"])
    found[".csv"].write_text("x,y,text\n" + "".join(f"{x},{n},row {n}\n" for n, x in enumerate(X[:, 0])))
    with tf.io.TFRecordWriter(str(found[".tfrecord"])) as file:
        for row in X:
            feature = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=row))}
            file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    write_archive(found[".bundle.npz"], {"x": X, "rows": [{"y": X, "text": np.array(["a\0", "b"], object)}]})
    return found


def mutations(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yields damaged copies: bits flipped, bytes cut, blocks of noise, of ones and of zeros, bytes inserted."""
    draw = random.Random(seed)
    for number in range(count):
        damaged, place = bytearray(content), draw.randrange(len(content))
        match number % 6:
            case 0:
                damaged[place] ^= 1 << draw.randrange(8)
            case 1:
                del damaged[place:]
            case 2:
                damaged[place : place + 16] = draw.randbytes(16)
            case 3:
                damaged[place : place + 8] = b"\xff" * 8
            case 4:
                damaged[place : place + 32] = bytes(32)
            case _:
                damaged[place:place] = draw.randbytes(draw.randrange(1, 9))
        yield bytes(damaged)


@pytest.mark.slow_rows(9)
@pytest.mark.slow
@pytest.mark.parametrize("count", sample_cases([36, 120], [36]))
@pytest.mark.parametrize("reader", READERS, ids=lambda each: f"{each.suffix}-{each.read.__name__}")
def test_a_damaged_file_is_read_or_refused_with_the_documented_error(
    reader: Reader, count: int, sound: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdf5_probe, "_LEAST_SECONDS", 3.0)  # HDF5 never returns from one of ten files
    path = tmp_path / f"file{reader.suffix}" if reader.suffix != ".pb" else tmp_path / "saved_model.pb"
    path.write_bytes(sound[reader.suffix].read_bytes())
    reader.read(path)
    refused = 0
    for damaged in mutations(path.read_bytes(), count, seed=len(reader.suffix)):
        path.write_bytes(damaged)
        try:
            reader.read(path)
        except reader.raises:
            refused += 1
    assert refused > count // 12
