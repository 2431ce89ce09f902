"""A layer that ends the process, in whatever way, is never a pass: in Python, in a worker, on the command line."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from onnx import TensorProto, helper

from keras_pe.export import ExportError, check_dataset, check_parity, export_onnx
from keras_pe.export.errors import ForeignExitError
from keras_pe.export.runtimes import RuntimeSpec
from tests.source_tree import ROOT


@keras.saving.register_keras_serializable("tests")
class Leaves(keras.layers.Layer):
    """Raises an exception of its class for one size of a batch, None for every size."""

    error: BaseException | None = None
    batch: int | None = 3

    def call(self, x):
        if self.error is not None and self.batch in (None, x.shape[0]):
            raise self.error
        return x


def leaving(monkeypatch: pytest.MonkeyPatch, error: BaseException, batch: int | None = 3) -> keras.Model:
    model = keras.Sequential([keras.Input((8,), name="x"), keras.layers.Dense(3), Leaves()])
    monkeypatch.setattr(Leaves, "error", error)
    monkeypatch.setattr(Leaves, "batch", batch)
    return model


@pytest.mark.parametrize(
    "error",
    [SystemExit(0), SystemExit(), GeneratorExit(), pytest.skip.Exception("later"), pytest.xfail.Exception("no")],
)
@pytest.mark.parametrize("batch", [3, None])
def test_a_check_raises_what_a_caller_catches(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, batch: int | None
) -> None:
    with pytest.raises(ForeignExitError, match=type(error).__name__):
        check_parity(leaving(monkeypatch, error, batch), runtimes="keras")


def test_an_interruption_stays_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        check_parity(leaving(monkeypatch, KeyboardInterrupt()), runtimes="keras")


def test_an_export_is_refused_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExportError, match="SystemExit: 0"):
        export_onnx(leaving(monkeypatch, SystemExit(0), None), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


MODULE = """
import os, sys, threading, keras

@keras.saving.register_keras_serializable("leaving")
class Leaves(keras.layers.Layer):
    def call(self, x):
        if not isinstance(x, keras.KerasTensor) and x.shape[0] == 3:
            leave()
        return x

    def get_config(self):
        if os.environ.get("LEAVES") == "config":
            sys.exit(0)
        return super().get_config()

    @classmethod
    def from_config(cls, config):
        if os.environ.get("LEAVES") == "load":
            sys.exit(0)
        return cls(**config)

def leave():
    way = os.environ.get("LEAVES")
    if way == "exit":
        sys.exit(0)
    if way == "interrupt":
        raise KeyboardInterrupt
    if way == "os":
        os._exit(0)
    if way == "daemon":
        thread = threading.Thread(target=os._exit, args=[0], daemon=True)
        thread.start()
        thread.join()
    if way == "late":
        import atexit
        atexit.register(os._exit, 0)
"""
MAKE = """
import keras, numpy as np, leaving
from keras_pe.export import export_onnx

inputs = keras.Input((8,), name="x")
dense = keras.layers.Dense(3, name="y")
model = keras.Model(inputs, dense(leaving.Leaves()(inputs)))
model.save("model.keras")
export_onnx(keras.Model(inputs, dense(inputs)), "sound.onnx")
dense.kernel.assign(dense.kernel * 1.1)
export_onnx(keras.Model(inputs, dense(inputs)), "bad.onnx")
np.savez("rows.npz", x=np.ones((6, 8), "float32"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("leaving")
    (made / "leaving.py").write_text(MODULE)
    subprocess.run([sys.executable, "-c", MAKE], cwd=made, env=environment(made), check=True, capture_output=True)
    return made


def environment(folder: Path, way: str = "") -> dict[str, str]:
    paths = os.pathsep.join([str(folder), str(ROOT), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": paths, "LEAVES": way}


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.parametrize("file", ["sound.onnx", "bad.onnx"])
@pytest.mark.parametrize("way", ["exit", "interrupt", "os", "daemon", "load", "config", "late"])
def test_the_command_line_ends_by_its_verdict_alone(folder: Path, way: str, file: str) -> None:
    command = [sys.executable, "-m", "keras_pe", "check", "model.keras", file, "--import", "leaving"]
    command += ["--runtime", "onnxruntime[all]"]
    done = subprocess.run(command, cwd=folder, env=environment(folder, way), capture_output=True, text=True)
    verdict = {"sound.onnx": 0, "bad.onnx": 1}[file]
    assert done.returncode == (verdict if way == "late" else 2), done.stdout + done.stderr
    assert done.returncode == 0 or "Error" in done.stderr or "FAILED" in done.stdout


TEST = """
import keras, leaving

def test_parity(parity):
    assert parity(keras.models.load_model("model.keras"), "bad.onnx", runtimes=["onnxruntime[all]"]).passed
"""


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize("way", ["exit", "interrupt", "os", "daemon"])
def test_a_suite_of_tests_never_passes(folder: Path, way: str) -> None:
    (folder / "test_models.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-p", "keras_pe.export.parity.pytest_plugin", "-q", "test_models.py"]
    places = environment(folder, way) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=places, capture_output=True, text=True)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert " passed" not in done.stdout


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("way", ["exit", "os"])
def test_a_data_set_never_passes(folder: Path, way: str, workers: str) -> None:
    command = [sys.executable, "-m", "keras_pe", "check", "model.keras", "sound.onnx", "--import", "leaving"]
    command += ["--data", "rows.npz", "--batch-size", "3", "--workers", workers, "--runtime", "onnxruntime[all]"]
    done = subprocess.run(command, cwd=folder, env=environment(folder, way), capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Error" in done.stderr


@pytest.mark.slow
def test_a_data_set_in_this_process_raises_what_a_caller_catches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = leaving(monkeypatch, SystemExit(0), 50)
    model_file = tmp_path / "model.onnx"
    export_onnx(model, model_file)
    rows = {"x": np.ones((50, 8), "float32")}
    with pytest.raises(ForeignExitError):
        check_dataset(model, model_file, rows, workers=0)


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("way", "when"),
    [
        ("SystemExit", "load"),
        ("SystemExit", "third"),
        ("KeyboardInterrupt", "first"),
        ("GeneratorExit", "first"),
        ("OwnError", "third"),
        ("os._exit", "load"),
        ("os._exit", "third"),
        ("daemon", "third"),
    ],
)
def test_a_runtime_that_ends_its_process_fails(tmp_path: Path, way: str, when: str) -> None:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", tensors[:1], tensors[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    factory = "tests.export.parity.faulty_runtimes:Leaving"
    spec = RuntimeSpec("mine", "onnx", factory, "numpy", "", options={"way": way, "when": when})
    report = check_parity(path, path, runtimes=spec)
    (result,) = report.results
    assert not report.passed
    told = result.error + " ".join(case.error for case in result.cases)
    assert ("os._exit(0)" if way in ("os._exit", "daemon") else way) in told
    assert ForeignExitError.__name__ not in told
