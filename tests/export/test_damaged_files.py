"""Every reader of every kind of file raises what it documents, and every command ends in a sentence.

Bytes of the files are damaged or missing, and values of their JSON have another type.
"""

import contextlib
import copy
import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from google.protobuf.message import DecodeError

from keras_pe.cli import main
from keras_pe.cli.exit_codes import CouldNotBeTriedError
from keras_pe.cli.start_keras import check_model_file
from keras_pe.cli.tables_in_file import tables_in
from keras_pe.export import export_litert, export_onnx, export_saved_model, read_artifact, write_bundle
from keras_pe.export.comparison.inputs.cases import read_case
from keras_pe.export.model import hdf5_probe
from keras_pe.export.model.saved_file import load_model
from keras_pe.export.parity.bundle import read_bundle
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.shards import read_rows, shards_of
from keras_pe.export.parity.data.source import DataError
from keras_pe.export.parity.npz_archive import read_archive, write_archive
from keras_pe.export.parity.work.open_models import open_model_file
from keras_pe.export.records import Finding, ParityReport, Recording, RuntimeResult
from keras_pe.export.results import Cause, RunStatus

X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


def read_all(path: Path) -> None:
    source = open_source(path)
    for shard in shards_of(source):
        for _ in read_rows(source, source.columns, shard):
            pass


class RefusedError(Exception):
    """A command has ended with 2 and a sentence."""


def command(*arguments: str) -> Callable[[Path], None]:
    """Returns what runs a command on a file, at `{}`."""

    def run(path: Path) -> None:
        done = CliRunner().invoke(main, [each.format(path) for each in arguments])
        assert done.exit_code in (0, 1, 2), done.output
        assert "Traceback" not in done.output, done.output
        if done.exit_code == 2:
            raise RefusedError(done.stderr)

    run.__name__ = arguments[0]
    return run


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
    Reader(".onnx", command("inspect", "{}"), RefusedError),
    Reader(".onnx", command("inspect", "{}", "--json"), RefusedError),
    Reader(".tflite", command("inspect", "{}"), RefusedError),
    Reader(".folder.json", lambda path: read_artifact(path.parent.parent)),
    Reader(".keras", command("identify", "{}"), RefusedError),
    Reader(".safetensors", command("identify", "{}"), RefusedError),
    Reader(".npz", command("identify", "{}"), RefusedError),
    Reader(".npy", command("plot", "error", "{}.png", "--table", "{}"), RefusedError),
    Reader(".replay.npz", read_bundle),
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
    (folder / "saved" / "assets.extra" / "keras_pe.json").rename(found[".folder.json"])
    found[".pb"] = folder / "saved" / "saved_model.pb"
    recording, finding = (
        Recording("given", {"x": X}, {"y": X}, {"y": -X}),
        Finding(Cause.FLIPPED_SIGN, "It is -1 times."),
    )
    failed = {"recording": recording, "findings": (finding,)}
    result = RuntimeResult(str(found[".onnx"]), "onnx", "onnxruntime", False, RunStatus.COMPARED, **failed)
    write_bundle(ParityReport("model", "itself", (), (result,)), found[".replay.npz"])
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


WILD = [None, -1, 2**31, 10**30, 1.5, 1e308, float("nan"), "", "x", "x" * 5000, [], [[]], {}, {"a": 1}, True, [1, 2]]


def damage_json(content: bytes, draw: random.Random) -> bytes:
    """Returns a file with another value in its JSON: the file, a member, a text of its metadata, or a part of it."""
    if content.startswith(b"PK"):
        stream = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
            for name in old.namelist():
                new.writestr(name, wild(old.read(name), draw) if name.endswith(".json") else old.read(name))
        return stream.getvalue()
    if content.startswith(b"{"):
        return wild(content, draw)
    with contextlib.suppress(DecodeError):
        model = onnx.load_from_string(content)
        for entry in model.metadata_props:
            if entry.value.startswith(("{", "[")):
                entry.value = wild(entry.value.encode(), draw).decode()
        return model.SerializeToString()
    found = re.search(rb"[{\[][ -~\n]{9,}[\]}]", content)
    return content.replace(found[0], wild(found[0], draw)[: len(found[0])].ljust(len(found[0]))) if found else content


def wild(text: bytes, draw: random.Random) -> bytes:
    """Returns a JSON text with another value somewhere, or with one value fewer, or nested far too deep."""
    if draw.random() < 0.1:
        return b'{"a":' * 100_000
    try:
        document = json.loads(text)
    except ValueError:  # not JSON after all
        return text
    nodes = [document]
    for node in nodes:
        nodes += [each for each in (node.values() if isinstance(node, dict) else node) if isinstance(each, dict | list)]
    node = draw.choice([each for each in nodes if each] or [{"": 0}])
    key = draw.choice([*node] if isinstance(node, dict) else range(len(node)))
    node[key] = copy.deepcopy(draw.choice(WILD))
    if draw.random() < 0.2:
        del node[key]
    return json.dumps(document).encode()


def place_of(suffix: str, folder: Path) -> Path:
    """Returns the path of a file in a folder: some files must have a name and a neighbor of a SavedModel."""
    if suffix == ".folder.json":
        (folder / "saved_model.pb").touch()
        (folder / "assets.extra").mkdir()
        return folder / "assets.extra" / "keras_pe.json"
    return folder / ("saved_model.pb" if suffix == ".pb" else f"file{suffix}")


def mutations(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yields damaged copies: bits flipped, bytes cut, blocks of noise, of ones and of zeros, bytes inserted."""
    draw = random.Random(seed)
    for number in range(count):
        damaged, place = bytearray(content), draw.randrange(len(content))
        match number % 7:
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
            case 5:
                damaged = bytearray(damage_json(content, draw))
            case _:
                damaged[place:place] = draw.randbytes(draw.randrange(1, 9))
        yield bytes(damaged)


ROWS = [
    pytest.param(reader, count, marks=mark, id=f"{reader.suffix}-{reader.read.__name__}-{count}")
    for reader in READERS
    for count, mark in (
        (12, pytest.mark.slow) if reader.suffix == ".h5" else (72, pytest.mark.slow),  # each .h5 file takes a process
        (240, pytest.mark.exhaustive),
    )
]


@pytest.mark.parametrize(("reader", "count"), ROWS)
def test_a_damaged_file_is_read_or_refused_with_the_documented_error(
    reader: Reader, count: int, sound: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdf5_probe, "_LEAST_SECONDS", 3.0)  # HDF5 never returns from one of ten files
    path = place_of(reader.suffix, tmp_path)
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
