"""A bundle runs by itself: `python failure.npz` needs the runtime, and neither keras_pe nor Keras."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from keras_pe.export import replay_bundle, write_bundle
from keras_pe.export.comparison import chunked_calls
from keras_pe.export.parity import bundle_script
from keras_pe.export.records import ParityReport, Recording, RuntimeResult
from keras_pe.export.results import Chunks, RunStatus
from tests.cli.test_check_data import write_model

INPUTS = {"x": np.ones((2, 4), np.float32)}


def write_failure(folder: Path, name: str, extra: float) -> Path:
    """Writes a model, and a bundle that expects `extra` more than the model returns."""
    path = str(write_model(folder / f"{name}.onnx", None))
    actual = {"p": run_model(path)}
    recording = Recording("ones", INPUTS, {"p": actual["p"] + np.float32(extra)}, actual)
    failed = RuntimeResult(path, "onnx", "onnxruntime[all]", False, RunStatus.COMPARED, recording=recording)
    write_bundle(ParityReport("model", "itself", (), (failed,)), folder / f"{name}.npz")
    return folder / f"{name}.npz"


def run_model(path: str) -> np.ndarray:
    import onnxruntime

    return np.asarray(onnxruntime.InferenceSession(path).run(None, INPUTS)[0])


def run(*command: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-I", *map(str, command)], capture_output=True, text=True)


def test_a_fault_exits_with_1_an_agreement_with_0_and_a_missing_artifact_with_2(tmp_path: Path) -> None:
    faulty, sound = write_failure(tmp_path, "faulty", 0.5), write_failure(tmp_path, "sound", 0.0)
    done = run(faulty)
    assert (done.returncode, done.stderr) == (1, "")
    assert "onnxruntime[all] on faulty.onnx, case 'ones'" in done.stdout
    assert run(sound).returncode == 0
    (tmp_path / "faulty.onnx").rename(tmp_path / "moved.onnx")
    assert run(faulty, tmp_path / "moved.onnx").returncode == 1
    missing = run(faulty)
    assert missing.returncode == 2
    assert "faulty.onnx" in missing.stderr


def test_the_script_imports_nothing_but_numpy_and_runtimes() -> None:
    files = [Path(module.__file__).read_text() for module in (bundle_script, chunked_calls)]
    tree = ast.parse("\n".join(files))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    assert others == {"numpy", "onnxruntime", "ai_edge_litert", "tensorflow", "chunked_calls"}


@pytest.mark.parametrize(
    ("expected", "actual", "largest"),
    [([1.0, 2.0], [1.0, 2.5], 0.5), ([np.nan], [np.nan], 0.0), ([np.nan], [1.0], np.inf), ([1.0], [1.0, 2.0], np.inf)],
)
def test_the_largest_difference_counts_nan_and_shapes(
    expected: list[float], actual: list[float], largest: float
) -> None:
    assert bundle_script.largest_difference(np.array(expected), np.array(actual)) == largest


@pytest.mark.parametrize(("now", "code"), [(0.0, 0), (0.5, 1)])
def test_a_file_that_did_not_run_is_mended_only_if_it_returns_what_is_expected(
    tmp_path: Path, now: float, code: int
) -> None:
    path = str(write_model(tmp_path / "model.onnx", None))
    recording = Recording("ones", INPUTS, {"p": run_model(path) + np.float32(now)}, {})
    failed = RuntimeResult(path, "onnx", "onnxruntime[all]", False, RunStatus.NOT_LOADED, recording=recording)
    write_bundle(ParityReport("model", "itself", (), (failed,)), tmp_path / "failure.npz")
    assert run(tmp_path / "failure.npz").returncode == code


def test_a_release_without_a_level_for_layouts_runs_with_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    class Levels:
        ORT_ENABLE_ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL

    monkeypatch.setattr(onnxruntime, "GraphOptimizationLevel", Levels)
    write_model(tmp_path / "model.onnx", 0.5)
    assert bundle_script._open_onnx(str(tmp_path / "model.onnx"), "layout")


def test_a_file_that_does_not_load_exits_with_1_and_the_reason(tmp_path: Path) -> None:
    bundle = write_failure(tmp_path, "model", 0.5)
    (tmp_path / "model.onnx").write_bytes(b"damaged")
    done = run(bundle)
    assert (done.returncode, done.stderr) == (1, "")


_ECHO = """<ir_version: 8, opset_import: ["": 17]>
echo (float[n, length] x, int64[n, total] mask, float[n, 1] h) => (float[n, length, 1] y, float[n, 1] h_out)
<int64[1] last = {2}> {
    y = Unsqueeze(x, last)
    h_out = Identity(h)
}"""


@pytest.mark.parametrize(("extra", "code"), [(0.0, 0), (0.5, 1)])
def test_a_sequence_is_compared_where_it_has_no_padding(tmp_path: Path, extra: float, code: int) -> None:
    onnx.save(onnx.parser.parse_model(_ECHO), path := tmp_path / "echo.onnx")
    inputs = {"x": np.array([[1, 2, 3]], "float32"), "mask": np.array([[0, 1, 1]]), "h": np.zeros((1, 1), "float32")}
    # The first value of `y` is padding, and the state after padding has no meaning.
    expected = {"y": np.array([[[9], [2], [3 + extra]]], "float32"), "h_out": np.full((1, 2, 1), 7, "float32")}
    chunks = Chunks((2, 1), {"x": 1}, {"h": "h_out"}, {"mask": 1}, "mask")
    recording = Recording("a sequence", inputs, expected, expected, chunks=chunks)
    failed = RuntimeResult(str(path), "onnx", "onnxruntime[all]", False, RunStatus.COMPARED, recording=recording)
    write_bundle(ParityReport("model", "itself", (), (failed,)), tmp_path / "failure.npz")
    assert run(tmp_path / "failure.npz").returncode == code
    assert replay_bundle(tmp_path / "failure.npz").passed == (code == 0)
