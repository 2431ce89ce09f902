"""A runtime in a child process: answers, refusals, crashes, hangs, and what it costs to start."""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import Format, TensorInfo
from keras_pe.export.errors import RuntimeDiedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.worker import Worker


def _refuse() -> None:
    raise ZeroDivisionError("read back")


class Unreadable(str):
    """A text that is written, and raises when it is read."""

    def __reduce__(self):
        return _refuse, ()


class Doubling:
    """A runtime to be started in a child process."""

    inputs = (TensorInfo("x", ("batch",), "float32"),)
    version = "doubling 1"

    def __init__(self, path: str, factor: float = 2.0) -> None:
        if path == "missing":
            raise FileNotFoundError(path)
        self.factor = factor

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        match inputs["x"].size:
            case 1:
                raise ValueError("one is not enough")
            case 2:
                print("leaving", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGABRT)
            case 3:
                time.sleep(3600)
            case 4:
                print("chatter on the standard output")
                os.write(1, b"and below Python\n")
            case 8:
                return {"y": np.array([Unreadable("text")], object)}
            case 6 | 7 as size:
                if os.fork() == 0:
                    time.sleep(3600)
                if size == 7:
                    os.kill(os.getpid(), signal.SIGABRT)
        return {"y": self.factor * inputs["x"], "modules": np.array(["tensorflow" in sys.modules])}


@pytest.fixture
def worker():
    spec = RuntimeSpec("doubling", "onnx", f"{__name__}:Doubling", "numpy", "-", {"factor": 3.0})
    with Worker(spec, timeout=2) as started:
        yield started


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("size", [0, 4, 100_000])
def test_arrays_come_back_by_name_whatever_the_runtime_prints(worker, size):
    worker.load("here")
    assert worker.inputs == Doubling.inputs
    assert worker.version == "doubling 1"
    x = np.arange(size, dtype=np.float32)
    outputs = worker.run({"x": x})
    np.testing.assert_array_equal(outputs["y"], 3 * x)
    assert outputs["y"].dtype == np.float32
    assert not outputs["modules"][0], "the child imports its runtime and nothing heavy besides"
    assert worker.seconds > 0


def test_a_refusal_is_an_answer_and_the_next_question_is_answered(worker):
    worker.load("here")
    with pytest.raises(RuntimeRefusedError, match="ValueError: one is not enough"):
        worker.run({"x": np.ones(1)})
    assert worker.run({"x": np.ones(5)})["y"].size == 5


def test_an_unloadable_artifact_is_a_refusal(worker):
    with pytest.raises(RuntimeRefusedError, match="FileNotFoundError"):
        worker.load("missing")
    with pytest.raises(RuntimeRefusedError, match="UTF-8"):
        worker.load(os.fsdecode(b"latin-\xfc"))
    with pytest.raises(RuntimeRefusedError, match="pattern"):
        worker.load("run[1]", replace(worker.spec, format=Format.SAVED_MODEL))


def test_a_crash_is_reported_with_the_signal_and_the_last_words(worker):
    worker.load("here")
    with pytest.raises(RuntimeDiedError, match=r"signal 6.*leaving"):
        worker.run({"x": np.ones(2)})
    with pytest.raises(RuntimeDiedError):
        worker.run({"x": np.ones(5)})


@pytest.mark.slow
def test_a_hang_ends_after_the_timeout(worker):
    worker.load("here")
    start = time.monotonic()
    with pytest.raises(RuntimeHungError, match="no answer in 2 s"):
        worker.run({"x": np.ones(3)})
    assert time.monotonic() - start < 4
    with pytest.raises(RuntimeDiedError):
        worker.run({"x": np.ones(5)})


def test_a_process_that_the_runtime_leaves_behind_does_not_keep_the_worker_open(worker):
    worker.load("here")
    assert worker.run({"x": np.ones(6)})["y"].size == 6
    closing = threading.Thread(target=worker.close, daemon=True)
    closing.start()
    closing.join(timeout=30)
    assert not closing.is_alive()


@pytest.mark.slow
def test_a_crash_is_none_the_less_where_another_process_holds_the_pipe(worker):
    worker.load("here")
    with pytest.raises(RuntimeDiedError, match="signal 6"):
        worker.run({"x": np.ones(7)})


@pytest.mark.slow
def test_an_answer_that_cannot_be_read_is_said_at_once_and_the_process_is_replaced(worker):
    worker.load("here")
    with pytest.raises(RuntimeDiedError, match="ZeroDivisionError: read back"):
        worker.run({"x": np.ones(8)})
    worker.load("here")
    assert worker.run({"x": np.ones(5)})["y"].size == 5


def test_a_runtime_that_cannot_be_imported_is_a_refusal():
    spec = RuntimeSpec("gone", "onnx", "no.such.module:Runtime", "numpy", "-")
    with Worker(spec, timeout=2) as worker, pytest.raises(RuntimeRefusedError, match="ModuleNotFoundError"):
        worker.load("here")


@pytest.mark.slow
def test_a_file_of_the_current_folder_that_is_called_like_a_package_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('the current folder was run')")
    monkeypatch.chdir(tmp_path)
    with Worker(RuntimeSpec("doubling", "onnx", f"{__name__}:Doubling", "numpy", "-"), timeout=20) as worker:
        worker.load("here")
        assert worker.run({"x": np.ones(5, np.float32)})["y"].sum() == 10


@pytest.mark.slow
def test_another_variant_is_loaded_in_the_same_process_and_after_a_crash_in_a_new_one(worker):
    worker.load("here")
    process = worker.process.pid
    worker.load("here", RuntimeSpec("doubling", "onnx", f"{__name__}:Doubling", "numpy", "-", {"factor": 5.0}))
    assert worker.process.pid == process
    assert worker.run({"x": np.ones(5, np.float32)})["y"].sum() == 25
    with pytest.raises(RuntimeDiedError):
        worker.run({"x": np.ones(2, np.float32)})
    worker.load("here")
    assert worker.run({"x": np.ones(5, np.float32)})["y"].sum() == 25


def divide(dividend: float, divisor: float) -> tuple[float, int]:
    if divisor < 0:
        os.kill(os.getpid(), signal.SIGABRT)
    return dividend / divisor, os.getpid()


@pytest.mark.slow
def test_a_function_is_called_in_the_same_process_and_after_a_crash_in_a_new_one(worker):
    assert worker.call(divide, 1.0, 2.0) == (0.5, worker.process.pid)
    with pytest.raises(RuntimeRefusedError, match="ZeroDivisionError"):
        worker.call(divide, 1.0, 0.0)
    with pytest.raises(RuntimeRefusedError, match="lambda"):
        worker.call(lambda: 1)
    with pytest.raises(RuntimeDiedError, match="signal 6"):
        worker.call(divide, 1.0, -1.0)
    assert worker.call(divide, 1.0, 2.0) == (0.5, worker.process.pid)
    worker.load("here")
    assert worker.run({"x": np.ones(5, np.float32)})["y"].sum() == 15
