"""TensorFlow Serving's REST interface, as its documentation gives it.

No package of a registry brings TensorFlow Serving itself, so the server here is written after that documentation.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker


def tensor(dtype: str, *dims: int) -> dict[str, Any]:
    shape = {"dim": [{"size": str(dim), "name": ""} for dim in dims], "unknown_rank": False}
    return {"dtype": dtype, "tensor_shape": shape, "name": "ignored:0"}


class Handler(BaseHTTPRequestHandler):
    """Serves y = 2 x + bias, and with two outputs its sign."""

    outputs: tuple[str, ...] = ("y",)

    def do_GET(self) -> None:
        signature = {
            "inputs": {"x": tensor("DT_FLOAT", -1, 3), "bias": tensor("DT_INT32")},
            "outputs": {name: tensor("DT_FLOAT" if name == "y" else "DT_INT64", -1, 3) for name in self.outputs},
            "method_name": "tensorflow/serving/predict",
        }
        definitions = {"signature_def": {"signature_def": {"serving_default": signature}}}
        self.send(200, {"model_spec": {"name": "m", "version": "3"}, "metadata": definitions})

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/models/m:predict"
        assert question["signature_name"] == "serving_default"
        if set(question["inputs"]) != {"x", "bias"}:
            self.send(400, {"error": "input bias is missing"})
            return
        y = 2 * np.array(question["inputs"]["x"], np.float32) + np.float32(question["inputs"]["bias"])
        outputs = {"y": y.tolist(), "sign": np.sign(y).astype(int).tolist()}
        self.send(200, {"outputs": outputs if len(self.outputs) == 2 else outputs["y"]})

    def send(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


send = Handler.send


@pytest.fixture(params=[("y",), ("y", "sign")])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    handler = type("Handler", (Handler,), {"outputs": request.param})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/models/m"
        server.shutdown()


@pytest.mark.slow
def test_one_output_or_several_come_back_by_name_and_type(address: str) -> None:
    (spec,) = find_runtimes([address])
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    with Worker(spec, timeout=60) as worker:
        worker.load(None)
        assert [(i.name, i.dtype, i.shape) for i in worker.inputs] == [
            ("bias", "int32", ()),
            ("x", "float32", ("x_0", 3)),
        ]
        assert worker.version == "tensorflow-serving (model version 3)"
        outputs = worker.run({"x": x, "bias": np.int32(1)})
        np.testing.assert_array_equal(outputs["y"], 2 * x + np.float32(1), strict=True)
        if "sign" in outputs:
            np.testing.assert_array_equal(outputs["sign"], np.sign(2 * x + 1).astype(np.int64), strict=True)
        with pytest.raises(RuntimeRefusedError, match=r"answers 400 Bad Request.*bias is missing"):
            worker.run({"x": x})


@pytest.mark.slow
def test_a_missing_part_of_an_answer_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = find_runtimes([address])
    with Worker(spec, timeout=60) as worker:
        worker.load(None)
        monkeypatch.setattr(Handler, "send", lambda self, status, content: send(self, 200, {"error": "busy"}))
        with pytest.raises(RuntimeRefusedError, match=r"The server's answer has no 'outputs': \{.*busy.*\}$"):
            worker.run({"x": np.ones((4, 3), np.float32), "bias": np.int32(1)})
        with pytest.raises(RuntimeRefusedError, match=r"no 'metadata\.signature_def\.signature_def\.serving_default'"):
            worker.load(None)
