"""ONNX Runtime in Node, in Chromium and in another Python: real programs, real files, real ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export.errors import RuntimeDiedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.runtimes.worker import Worker
from tests.export.runtimes.external.present import need

NODE = ("onnxruntime_node", "onnxruntime_web[wasm]")
BROWSER = ("onnxruntime_web[chromium-wasm]", "onnxruntime_web[webgpu]", "onnxruntime_web[webgpu-jsep]")
OTHER_PYTHON = f"onnxruntime@{sys.executable}"
EVERYWHERE = [*(pytest.param(name, marks=pytest.mark.slow) for name in NODE + BROWSER), OTHER_PYTHON]
PROVIDERS = {
    "onnxruntime_web[webgpu]": "WebGpuExecutionProvider",
    "onnxruntime_web[webgpu-jsep]": "JsExecutionProvider",
}

KERNEL = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((2, 5, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a product and a tanh, and a node that has no kernel for a GPU."""
    nodes = [
        helper.make_node("MatMul", ["x", "kernel"], ["product"]),
        helper.make_node("Shape", ["product"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Add", ["product", "zeros"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length", 3])]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, [numpy_helper.from_array(KERNEL, "kernel")])
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.fixture
def worker(request: pytest.FixtureRequest, path: Path) -> Iterator[Worker]:
    with Worker(need(request.param), timeout=60) as started:
        started.load(path)
        yield started


def processes(worker: Worker, kind: str) -> list[int]:
    """Returns the living processes that the worker has started and whose command holds a text."""
    command = ["ps", "-wweo", "pid,pgid,stat,args"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    split = [row.split(maxsplit=3) for row in rows if kind in row]
    return [int(pid) for pid, group, state, *_ in split if int(group) == worker.process.pid and state[0] != "Z"]


@pytest.mark.slow
@pytest.mark.parametrize("worker", EVERYWHERE, indirect=True)
def test_it_takes_and_returns_named_arrays_shows_what_is_inside_and_tells_where_it_ran(worker: Worker) -> None:
    assert [(i.name, i.dtype, i.shape) for i in worker.inputs] == [("x", "float32", ("batch", "length", 8))]
    # 8 products of size 1 and as many additions: a few units of float32.
    np.testing.assert_allclose(worker.run({"x": X})["y"], np.tanh(X @ KERNEL), rtol=0, atol=2e-6)
    assert worker.run({"x": X[:, :0]})["y"].shape == (2, 0, 3)
    inside = worker.intermediates({"x": X}, {})
    assert list(inside) == ["product", "shape", "zeros", "sum", "y"]
    np.testing.assert_allclose(inside["product"], X @ KERNEL, rtol=0, atol=4e-6)
    assert inside["shape"].tolist() == [2, 5, 3]
    given = np.full((1, 2, 3), 0.5, np.float32)
    replaced = worker.intermediates({"x": X}, {"sum": given})
    np.testing.assert_allclose(replaced["y"], np.tanh(given), rtol=0, atol=2e-6)
    np.testing.assert_array_equal(replaced["product"], inside["product"])
    with pytest.raises(RuntimeRefusedError, match="x"):
        worker.run({"other": X})
    assert worker.run({"x": X})["y"].shape == (2, 5, 3), "the next question is answered"

    package, version, _, place = worker.version.split(" ")[:4]
    name = worker.spec.name
    assert package.replace("runtime-", "runtime_") == ("onnxruntime" if "@" in name else name)
    assert version[0].isdigit()
    assert place == ("Python" if "@" in name else "Node" if name in NODE else "Chromium")
    if name in PROVIDERS:
        assert worker.version.endswith("on google swiftshader")
        assert worker.providers[PROVIDERS[name]] >= 2
        assert worker.providers["CPUExecutionProvider"] >= 1, "no GPU kernel makes a tensor of a shape"
    else:
        assert set(worker.providers) == {"CPUExecutionProvider"}


@pytest.mark.parametrize("worker", [pytest.param(NODE[0], marks=pytest.mark.slow), OTHER_PYTHON], indirect=True)
def test_a_process_that_is_killed_is_a_crash_with_its_signal(worker: Worker) -> None:
    (process,) = processes(worker, "session.")
    os.kill(process, signal.SIGABRT)
    with pytest.raises(RuntimeDiedError, match="ended with signal 6"):
        worker.run({"x": X})


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["onnxruntime_web[chromium-wasm]"], indirect=True)
def test_a_page_that_crashes_is_a_crash_though_the_browser_lives(worker: Worker) -> None:
    for page in processes(worker, "--type=renderer"):  # one of them is empty, for the next page
        os.kill(page, signal.SIGKILL)
    with pytest.raises(RuntimeDiedError, match="the page crashed"):
        worker.run({"x": X})


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["onnxruntime_web[webgpu]"], indirect=True)
def test_a_lost_device_is_a_crash_by_name(worker: Worker) -> None:
    (gpu,) = processes(worker, "--type=gpu-process")
    os.kill(gpu, signal.SIGKILL)
    with pytest.raises(RuntimeDiedError, match="WebGPU lost its device"):
        worker.run({"x": X})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnxruntime_node", "onnxruntime_web[webgpu]"])
def test_a_hang_ends_after_the_timeout_and_leaves_no_process_and_no_file(name: str, path: Path) -> None:
    with Worker(need(name), timeout=60) as worker:
        worker.load(path)
        room = worker.process.folder.path
        for process in processes(worker, "session.mjs") + processes(worker, "--type=renderer"):
            os.kill(process, signal.SIGSTOP)
        worker._timeout = 2
        with pytest.raises(RuntimeHungError, match="no answer in 2 s"):
            worker.run({"x": X})
    end = time.monotonic() + 10  # a process that was killed may take a moment
    while processes(worker, "") and time.monotonic() < end:
        pass
    assert processes(worker, "") == []
    assert not room.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_file_that_is_no_model_is_refused_and_weights_in_a_file_of_their_own_are_found(
    name: str, path: Path, tmp_path: Path
) -> None:
    broken, moved = tmp_path / "broken.onnx", tmp_path / "moved.onnx"
    broken.write_bytes(b"\x08\x07broken")
    save = {"save_as_external_data": True, "location": "moved.data", "size_threshold": 0}
    onnx.save(onnx.load(path), moved, **save)
    with Worker(need(name), timeout=60) as worker:
        with pytest.raises(RuntimeRefusedError):
            worker.load(broken)
        worker.load(moved)
        np.testing.assert_allclose(worker.run({"x": X})["y"], np.tanh(X @ KERNEL), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", [NODE[0], *BROWSER[1:], OTHER_PYTHON])
@pytest.mark.slow
def test_a_run_that_fails_inside_is_a_refusal_and_the_next_question_is_answered(name: str, tmp_path: Path) -> None:
    """On WebGPU onnxruntime-web itself would never answer again."""
    text = """<ir_version: 9, opset_import: ["": 18]>
        g (float[n] x, int64[2] shape) => (float[a, b] y) { z = Tanh(x) y = Reshape(z, shape) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    shape = np.array([2, 3])
    with Worker(need(name), timeout=60) as worker:
        worker.load(tmp_path / "model.onnx")
        for _ in range(2):
            with pytest.raises(RuntimeRefusedError, match="cannot be reshaped"):
                worker.run({"x": np.ones(7, np.float32), "shape": shape})
            assert worker.run({"x": np.ones(6, np.float32), "shape": shape})["y"].shape == (2, 3)


@pytest.mark.slow
def test_two_questions_at_once_go_to_two_processes(path: Path) -> None:
    """Each worker has a bridge, a port and a secret of its own."""
    with Worker(need(OTHER_PYTHON), timeout=60) as one, Worker(need(OTHER_PYTHON), timeout=60) as two:
        loading = [threading.Thread(target=worker.load, args=[path]) for worker in (one, two)]
        for thread in loading:
            thread.start()
        for thread in loading:
            thread.join()
        np.testing.assert_array_equal(one.run({"x": X})["y"], two.run({"x": X})["y"])
