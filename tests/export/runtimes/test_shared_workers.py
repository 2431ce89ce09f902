"""TensorFlow in a child process: reused while it is sound, and without needless imports."""

import contextlib
import os
import pickle
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from keras_pe.export.errors import RuntimeDiedError
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec
from keras_pe.export.runtimes.shared_workers import end, onnxruntime_process, tensorflow_process
from keras_pe.export.runtimes.worker import Worker


class Telling:
    """Tells about its process, ends it, or never answers."""

    inputs = ()
    version = "telling 1"

    def __init__(self, path: str) -> None:
        self.what = path

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        if self.what == "abort":
            os.abort()
        if self.what == "sleep":
            time.sleep(600)
        return {
            "modules": np.array(["tensorflow" in sys.modules, "keras" in sys.modules]),
            "process": np.array([os.getpid()]),
            "devices": np.array([os.environ.get("CUDA_VISIBLE_DEVICES", "")]),
        }


TELLING = RuntimeSpec("telling", "onnx", f"{__name__}:Telling", "numpy", "-")


def ask(process: Worker, what: str) -> Arrays:
    process.load(Path(what), TELLING)
    return process.run({})


@pytest.fixture(scope="module", autouse=True)
def fresh() -> None:
    end()  # an earlier export may have had libraries imported there that need Keras


@pytest.mark.slow
def test_the_next_export_gets_the_same_process() -> None:
    with tensorflow_process() as first:
        told = ask(first, "modules")
    assert told["modules"].tolist() == [True, False], "TensorFlow is there, and Keras is not needed"
    assert told["devices"].tolist() == ["-1"]
    with tensorflow_process() as second:
        assert ask(second, "modules")["process"] == told["process"]


@pytest.mark.slow
def test_each_runtime_has_a_process_of_its_own() -> None:
    with onnxruntime_process() as first:
        told = ask(first, "modules")
    assert told["modules"].tolist() == [False, False]
    with tensorflow_process() as other, onnxruntime_process() as second:
        assert other is not first
        assert ask(second, "modules")["process"] == told["process"]


@pytest.mark.slow
def test_an_export_beside_another_has_a_process_of_its_own() -> None:
    with onnxruntime_process() as first, onnxruntime_process() as second:
        assert second is not first


@pytest.mark.slow
def test_a_process_that_has_ended_is_not_lent_again() -> None:
    with pytest.raises(RuntimeDiedError, match="signal 6"), onnxruntime_process() as first:
        ask(first, "abort")
    with onnxruntime_process() as second:
        assert second is not first


@pytest.mark.slow
def test_a_process_that_owes_an_answer_is_not_lent_again() -> None:
    class InterruptError(Exception):
        pass

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise InterruptError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with contextlib.suppress(InterruptError), onnxruntime_process() as first:
            first.load(Path("sleep"), TELLING)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            first.run({})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    with onnxruntime_process() as second:
        assert second is not first


def test_the_process_that_is_kept_can_be_ended() -> None:
    with onnxruntime_process() as process:
        pass
    assert process.is_free
    end()
    assert not process.is_free


@pytest.mark.parametrize("lent", [tensorflow_process, onnxruntime_process])
def test_a_lender_can_be_named_to_another_process(lent: object) -> None:
    assert pickle.loads(pickle.dumps(lent)) is lent
