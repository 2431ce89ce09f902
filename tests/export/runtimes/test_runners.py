"""Promises of every runner, wherever its runtime is: any failure there is one of three errors."""

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from keras_pe.export.errors import RuntimeDiedError, RuntimeFailedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.records import TensorInfo
from keras_pe.export.runtimes import RuntimeSpec
from keras_pe.export.runtimes.registry import named_runtimes
from keras_pe.export.runtimes.runner import InProcessRunner, Runner
from keras_pe.export.runtimes.worker import Worker

MODEL = """<ir_version: 9, opset_import: ["": 18]>
    g (float[n] x, int64[2] shape) => (float[a, b] y) { y = Reshape(x, shape) }"""


class Scripted:
    """A runtime that fails on command."""

    version = "scripted 1"

    def __init__(self, *opening: Any, when: str, what: str) -> None:
        self.script = {when: what}
        self.inputs = self.obey("load") or (TensorInfo("x", ("batch",), "float32"),)

    def run(self, inputs: Mapping[str, Any]) -> Any:
        return self.obey("run")

    def obey(self, moment: str) -> Any:
        match self.script.get(moment):
            case "refuse":
                raise ZeroDivisionError("refused as told")
            case "exit":
                sys.exit("left as told")
            case "die":
                os.abort()
            case "hang":
                time.sleep(600)
            case "babble":
                return 3
            case "unutterable":
                raise UnutterableError
            case "numbered":
                return {0: np.ones(7)}
            case "strange":
                return (TensorInfo("x", ("batch",), "float8e4m3fn"),)
        return None


class UnutterableError(Exception):
    """Fails when its version is read."""

    def __str__(self) -> str:
        raise ZeroDivisionError


@contextlib.contextmanager
def in_process(when: str, what: str, folder: Path) -> Iterator[Runner]:
    options = {"when": when, "what": what}
    with InProcessRunner(RuntimeSpec("s", "keras", f"{__name__}:Scripted", "numpy", "-", options), None, None) as own:
        yield own


@contextlib.contextmanager
def in_child(when: str, what: str, folder: Path) -> Iterator[Runner]:
    options = {"when": when, "what": what}
    with Worker(RuntimeSpec("s", "onnx", f"{__name__}:Scripted", "numpy", "-", options), timeout=1) as own:
        yield own


@contextlib.contextmanager
def elsewhere(when: str, what: str, folder: Path) -> Iterator[Runner]:
    """ONNX Runtime in another installation, which raises its own refusals."""
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    (folder / "model.onnx").write_bytes(model if when == "run" else b"\x08\x07broken")
    with Worker(*named_runtimes(f"onnxruntime@{sys.executable}"), timeout=60) as own:
        yield own


@contextlib.contextmanager
def served(when: str, what: str, folder: Path) -> Iterator[Runner]:
    """A server of the Open Inference Protocol."""
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            info = {"name": "x", "datatype": "FP32", "shape": [-1]}
            self.answer("load", {"inputs": [info], "name": "scripted", "version": "1"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer("run", {"outputs": []})

        def answer(self, moment: str, usual: Any) -> None:
            told = what if when == moment else ""
            if told == "die":
                return  # without a word
            if told == "hang":
                is_over.wait(600)
            body = json.dumps(3 if told == "babble" else usual).encode()
            self.send_response(500 if told == "refuse" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v2/models/m"
        with Worker(*named_runtimes(address), timeout=1 if what == "hang" else 60) as own:
            yield own
        is_over.set()
        server.shutdown()


# Commands of each place, and their results.
REFUSES = {"refuse": RuntimeRefusedError, "babble": RuntimeRefusedError}
LEAVES = {**REFUSES, "exit": RuntimeRefusedError}
PLACES: dict[Any, dict[str, type[RuntimeFailedError]]] = {
    in_process: LEAVES,
    in_child: {**LEAVES, "die": RuntimeDiedError, "hang": RuntimeHungError},
    elsewhere: {"refuse": RuntimeRefusedError},
    # A connection that ends is the server's, which may be another next time: the runtime here goes on.
    served: {**REFUSES, "die": RuntimeRefusedError, "hang": RuntimeHungError},
}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_whatever_happens_in_a_runtime_is_one_of_three_errors(place: Any, tmp_path: Path) -> None:
    for what, error in PLACES[place].items():
        for when in ("load", "run"):
            with place(when, what, tmp_path) as runner:
                if when == "load":
                    with pytest.raises(error):
                        runner.load(tmp_path / "model.onnx")
                    continue
                runner.load(tmp_path / "model.onnx")
                with pytest.raises(error):
                    runner.run({"x": np.ones(7, np.float32), "shape": np.array([2, 3])})


@pytest.mark.parametrize(
    ("when", "what", "said"),
    [
        ("load", "unutterable", "^UnutterableError$"),
        ("load", "numbered", r"`inputs` must be `TensorInfo`s\. Received: 0$"),
        ("load", "strange", r"input 'x' is of type float8e4m3fn, and no array is\.$"),
        ("run", "unutterable", "^UnutterableError$"),
        ("run", "numbered", r"must return texts as names\. Received: int 0$"),
        ("run", "strange", r"must return a mapping of names .*Received: tuple \(TensorInfo\(name='x', "),
    ],
)
def test_an_invalid_answer_is_refused_with_the_rule(when: str, what: str, said: str, tmp_path: Path) -> None:
    with in_process(when, what, tmp_path) as runner:
        if when == "run":
            runner.load()
        with pytest.raises(RuntimeRefusedError, match=said):
            runner.run({"x": np.ones(7, np.float32)}) if when == "run" else runner.load()


@pytest.mark.slow
def test_an_option_that_cannot_be_sent_is_refused_and_the_next_artifact_gets_another_process(tmp_path: Path) -> None:
    with in_child("run", "babble", tmp_path) as runner:
        unknown = RuntimeSpec("s", "onnx", f"{__name__}:Scripted", "numpy", "-", {"when": lambda: None, "what": ""})
        with pytest.raises(RuntimeRefusedError, match="lambda"):
            runner.load(tmp_path, unknown)
        runner.load(tmp_path, RuntimeSpec("s", "onnx", f"{__name__}:Scripted", "numpy", "-", {"when": "", "what": ""}))
        assert runner.inputs[0].name == "x"


@pytest.mark.slow
def test_a_runner_that_was_refused_can_be_asked_again(tmp_path: Path) -> None:
    for place in (in_process, in_child, elsewhere):
        with place("run", "refuse", tmp_path) as runner:
            for _ in range(2):
                runner.load(tmp_path / "model.onnx")
                with pytest.raises(RuntimeRefusedError):
                    runner.run({"x": np.ones(7, np.float32), "shape": np.array([2, 3])})
