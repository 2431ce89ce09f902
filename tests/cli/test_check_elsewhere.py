"""`keras-pe check` where models really run: Node, browser, server, another release; sound, and with a planted fault."""

import json
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import numpy_helper

from keras_pe.cli import main
from keras_pe.demo.forecaster import build_forecaster
from keras_pe.export import export_onnx
from tests.export.runtimes.external.present import mlserver_python, need, older_python
from tests.export.runtimes.servers import mlserver

PLACES = ("onnxruntime_web[wasm]", "onnxruntime_web[webgpu]", "onnxruntime_node")
FAULTY = "narrow_0"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The forecaster of the demonstration, untrained, its export, and the export with a kernel turned round."""
    folder = tmp_path_factory.mktemp("forecaster")
    keras.utils.set_random_seed(0)
    model = build_forecaster()
    model.save(folder / "forecaster.keras")
    export_onnx(model, folder / "forecaster.onnx")
    faulty = onnx.load(folder / "forecaster.onnx")
    (kernel,) = (each for each in faulty.graph.initializer if FAULTY in each.name and "kernel" in each.name)
    kernel.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(kernel), kernel.name))
    onnx.save(faulty, folder / "faulty.onnx")
    return folder


@pytest.fixture(params=["forecaster", "faulty"])
def served(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """One of the two files, and its address on a server."""
    mlserver_python()
    path = folder / f"{request.param}.onnx"
    with mlserver(path, request.param, tmp_path) as address:
        yield path, address


def check(*arguments: str) -> tuple[int, dict]:
    """Returns the exit code and the report."""
    done = CliRunner().invoke(main, ["check", *arguments, "--json"])
    assert done.exit_code in (0, 1), done.output
    return done.exit_code, json.loads(done.stdout)


def test_a_model_in_node_in_a_browser_and_on_a_server_passes_and_a_planted_fault_is_located_in_each(
    folder: Path, served: tuple[Path, str], tmp_path: Path
) -> None:
    for name in PLACES:
        need(name)
    path, address = served
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, changes=np.random.default_rng(0).standard_normal((2, 11, 1)).astype(np.float32))
    places = [argument for place in ("onnxruntime[all]", *PLACES, address) for argument in ("--runtime", place)]
    code, report = check(str(folder / "forecaster.keras"), str(path), *places, "--inputs", str(inputs))
    results = {result["runtime"]: result for result in report["results"]}
    assert set(results) == {"onnxruntime[all]", *PLACES, address}
    if path.stem == "forecaster":
        assert code == 0, report
        assert results["onnxruntime_web[webgpu]"]["providers"]["WebGpuExecutionProvider"] > 20
        return
    assert code == 1
    for runtime, result in results.items():
        assert not result["passed"], runtime
        at_fault = [layer["layer"] for layer in result["layers"] if layer["originates_here"]]
        assert at_fault[0] == FAULTY, runtime
        assert FAULTY in str(result["findings"]), runtime
    assert results[address]["findings"][0]["cause"] == "the file that is served"


def test_a_fault_of_an_older_release_is_shown_as_one_with_both_versions(tmp_path: Path) -> None:
    """ONNX Runtime 1.20 counts the padding that rounding up adds, in three dimensions with dilations."""
    older = f"onnxruntime@{older_python()}"
    text = """<ir_version: 9, opset_import: ["": 20]>
        pool (float[batch, 1, 32, 32, 32] x) => (float[batch, 1, 9, 9, 9] y) {
            y = AveragePool <ceil_mode = 1, count_include_pad = 1, dilations = [2, 2, 2],
                             kernel_shape = [5, 5, 5], strides = [3, 3, 3]> (x) }"""
    path = tmp_path / "pool.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, x=np.random.default_rng(0).standard_normal((1, 1, 32, 32, 32)).astype(np.float32))
    places = ["--runtime", "onnxruntime[all]", "--runtime", older]
    code, report = check(str(path), str(path), *places, "--inputs", str(inputs))
    here, there = report["results"]
    assert code == 1
    assert here["passed"]
    assert not there["passed"]
    assert there["findings"][0]["cause"] == "another release"
    assert f"onnxruntime {onnxruntime.__version__} passes" in there["findings"][0]["evidence"]
    assert "onnxruntime 1.20.1" in there["findings"][0]["evidence"]
