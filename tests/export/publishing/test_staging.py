"""Nothing is lost: whatever stops an export, what stood at the destination stays, and the next run leaves no litter."""

import ctypes
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest

from keras_pe.export import export_litert, export_onnx, export_saved_model
from keras_pe.export.publishing.staging import publish_file, publish_folder, staged_artifact, staging
from tests.full_disk import full_disk

STAGES = ("signature", "trace", "convert", "write", "run", "publish")

_KILLED = """
import os, signal, sys
import keras
from keras_pe.export import export_onnx, export_saved_model

export = export_saved_model if sys.argv[2] == "tf_saved_model" else export_onnx
stages = {}
for stage in sys.argv[4:]:
    if os.fork() == 0:  # before anything has started TensorFlow's threads, which a fork would not have
        model = keras.saving.load_model(sys.argv[1])
        export(model, sys.argv[3], progress=lambda name: name == stage and os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    stages[stage] = os.WIFSIGNALED(os.wait()[1])
print(stages)
"""


def _model() -> keras.Model:
    return keras.Sequential([keras.Input((None, 8), name="values"), keras.layers.Dense(300)])


def _litter(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_staging_is_beside_the_destination_and_gone_afterwards(tmp_path: Path) -> None:
    with staging(tmp_path / "new" / "m.onnx") as folder:
        assert folder.parent == tmp_path / "new"
        (folder / "half").write_text("half")
    assert _litter(tmp_path / "new") == []


def test_an_error_while_writing_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("old")

    def write() -> None:
        with staging(tmp_path / "m.onnx") as folder:
            (folder / "m.onnx").write_text("half")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write()
    assert (tmp_path / "m.onnx").read_text() == "old"
    assert _litter(tmp_path) == []


def test_remains_of_a_killed_run_are_removed_by_the_next_one(tmp_path: Path) -> None:
    left, other = tmp_path / ".m.onnx.00000000.partial", tmp_path / ".n.onnx.11111111.partial"
    left.mkdir(), other.mkdir()
    (tmp_path / ".m.onnx.lock").touch()
    with staging(tmp_path / "m.onnx"):
        assert not left.exists()
        assert other.exists()  # it has another destination
    assert _litter(tmp_path) == [other.name]


def test_a_run_waits_for_another_one_to_the_same_destination_and_takes_nothing_from_it(tmp_path: Path) -> None:
    entered, order = threading.Event(), list[str]()

    def second() -> None:
        entered.set()
        with staging(tmp_path / "m.onnx"):
            order.append("second")

    with staging(tmp_path / "m.onnx") as folder:
        (folder / "half").write_text("half")
        thread = threading.Thread(target=second)
        thread.start()
        entered.wait()
        assert (folder / "half").read_text() == "half"
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_folder_is_replaced_in_one_step(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with staging(tmp_path / "model") as folder:
            (folder / "made").mkdir()
            (folder / "made" / "saved_model.pb").write_text(content)
            publish_folder(folder / "made", tmp_path / "model")
    assert (tmp_path / "model" / "saved_model.pb").read_text() == "new"
    assert _litter(tmp_path) == []


def test_a_folder_is_replaced_where_the_file_system_cannot_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    test_a_folder_is_replaced_in_one_step(tmp_path)


def test_files_that_a_killed_run_moved_aside_are_restored(tmp_path: Path) -> None:
    (tmp_path / ".model.previous").mkdir()
    (tmp_path / ".model.previous" / "saved_model.pb").write_text("old")
    with staging(tmp_path / "model"):
        assert (tmp_path / "model" / "saved_model.pb").read_text() == "old"
    assert _litter(tmp_path) == []


def test_a_folder_whose_exchange_fails_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_text("old")
    with staging(tmp_path / "model") as folder, pytest.raises(FileNotFoundError):
        publish_folder(folder / "never made", tmp_path / "model")
    assert (tmp_path / "model" / "saved_model.pb").read_text() == "old"
    assert _litter(tmp_path) == []


def test_a_published_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def name(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    monkeypatch.setattr(os, "fsync", lambda descriptor: steps.append(f"sync {name(descriptor)}"))
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda path, to: (steps.append(f"name {to.name}"), replace(path, to)))
    data = f"m.onnx.{'0' * 16}.data"
    with staging(tmp_path / "m.onnx") as folder:
        for file in ("m.onnx", data):
            (folder / file).write_text("content")
        publish_file(folder / "m.onnx", [folder / data], tmp_path / "m.onnx")
    folder_synced = f"sync {tmp_path.name}"
    assert steps == [f"sync {data}", f"name {data}", "sync m.onnx", folder_synced, "name m.onnx", folder_synced]


def test_only_the_data_file_of_the_published_model_remains(tmp_path: Path) -> None:
    for digest in ("0" * 16, "1" * 16):
        with staging(tmp_path / "m.onnx") as folder:
            files = [folder / "m.onnx", folder / f"m.onnx.{digest}.data"]
            for file in files:
                file.write_text(digest)
            publish_file(files[0], files[1:], tmp_path / "m.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", f"m.onnx.{'1' * 16}.data"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onnx", "tf_saved_model"])
def test_a_kill_at_any_stage_leaves_the_old_artifact_whole(tmp_path: Path, kind: str) -> None:
    model, out = tmp_path / "model.keras", tmp_path / "out"
    _model().save(model)
    old = keras.saving.load_model(model)
    export = export_onnx if kind == "onnx" else export_saved_model
    export(old, out)
    files = sorted(path for path in [out, *out.rglob("*")] if path.is_file())
    before = [file.read_bytes() for file in files]
    command = [sys.executable, "-c", _KILLED, str(model), kind, str(out), *STAGES]
    environment = {**os.environ, "PYTHONPATH": "."}
    found = subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout
    assert found.splitlines()[-1] == str(dict.fromkeys(STAGES, True))  # each run was killed, none ran through
    assert [file.read_bytes() for file in files] == before
    assert _litter(tmp_path) != []
    export(old, out)
    assert _litter(tmp_path) == []


def test_a_full_disk_is_a_clear_error_and_leaves_the_old_artifact(tmp_path: Path) -> None:
    artifact = export_onnx(_model(), tmp_path / "m.onnx")
    before = artifact.path.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing past the limit is then an error, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            export_onnx(_model(), tmp_path / "m.onnx")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert artifact.path.read_bytes() == before
    assert _litter(tmp_path) == []


def test_a_full_disk_below_a_staged_folder_is_named_with_the_destination_of_the_user(tmp_path: Path) -> None:
    place = tmp_path / "decoder"
    with (
        pytest.raises(OSError, match=f"The artifact could not be written to {place}: No space left"),
        staged_artifact(place) as folder,
        staged_artifact(folder / "model.onnx"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert _litter(tmp_path) == []


def test_two_exports_to_one_place_at_once_end_with_one_whole_artifact(tmp_path: Path) -> None:
    place = tmp_path / "m.onnx"
    contents = [content * 100_000 for content in (b"\x08a", b"\x08b")]

    def publish(content: bytes) -> None:
        for _ in range(20):
            with staging(place) as folder:
                (folder / place.name).write_bytes(content)
                publish_file(folder / place.name, [], place)

    threads = [threading.Thread(target=publish, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.read_bytes() in contents
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx"]


def test_an_export_replaces_an_older_one(tmp_path: Path) -> None:
    for width in (2, 3):
        model = keras.Sequential([keras.Input((2,), name="values"), keras.layers.Dense(width)])
        export_onnx(model, tmp_path / "m.onnx")
    session = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"values": np.ones((1, 2), "float32")})[0].shape == (1, 3)


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it() -> None:
    with pytest.raises(OSError, match="/proc"):  # not even root writes there
        export_onnx(_model(), "/proc/m.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("export", [export_onnx, export_saved_model, export_litert], ids=lambda each: each.__name__)
def test_a_full_disk_is_named_with_the_destination_whatever_writes(tmp_path: Path, export: Any) -> None:
    place = tmp_path / "model"
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with full_disk(300), pytest.raises(OSError, match=f"The artifact could not be written to {place}: "):
        export(_model(), place)
    assert _litter(tmp_path) == []
    assert not place.exists()
