"""Real servers for the tests: MLServer from an environment of its own, and a small one in this process."""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.export.runtimes.external.present import mlserver_python

START = 120.0  # seconds: it imports a web framework, from a cold disk


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def mlserver(path: Path, name: str, folder: Path) -> Iterator[str]:
    """Serves an ONNX file. The value is the model's address."""
    port = free_port()
    settings = {"host": "127.0.0.1", "http_port": port, "grpc_port": free_port(), "metrics_endpoint": None}
    (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": 0, "debug": False}))
    model = {"name": name, "implementation": "mlserver_model.OnnxModel", "platform": "onnxruntime_onnx"}
    model["parameters"] = {"uri": str(path), "version": "1"}
    (folder / "model-settings.json").write_text(json.dumps(model))
    shutil.copy(Path(__file__).with_name("mlserver_model.py"), folder)
    command = [str(Path(mlserver_python()).with_name("mlserver")), "start", str(folder)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    log = folder / "log"
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, env=environment) as server:
        try:
            _wait(f"http://127.0.0.1:{port}/v2/models/{name}/ready", server, log)
            yield f"http://127.0.0.1:{port}/v2/models/{name}"
        finally:
            server.terminate()


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5) as response:
                if response.status == 200:
                    return
        except OSError:
            time.sleep(0.2)  # it tells nobody that it is ready
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


@contextmanager
def open_inference(path: Path, *, status: int = 200) -> Iterator[str]:
    """Serves an ONNX file by the Open Inference Protocol from this process. The value is the model's address.

    Args:
        path: The file.
        status: Status of the answer to each inference: above 200 the server refuses it.
    """
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    about = [
        {"name": each.name, "datatype": "FP32", "shape": [d if isinstance(d, int) else -1 for d in each.shape]}
        for each in session.get_inputs()
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, {"inputs": about, "name": "small", "version": "1", "platform": "onnx"})

        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if status != 200:
                return self._answer(status, {"error": "out of memory"})
            given = {
                each["name"]: np.array(each["data"], np.float32).reshape(each["shape"]) for each in question["inputs"]
            }
            pairs = zip(session.get_outputs(), session.run(None, given), strict=True)
            outputs = [
                {"name": each.name, "datatype": "FP32", "shape": array.shape, "data": array.ravel().tolist()}
                for each, array in pairs
            ]
            return self._answer(200, {"outputs": outputs})

        def _answer(self, code: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v2/models/small"
        finally:
            server.shutdown()
