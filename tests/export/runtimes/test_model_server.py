"""Errors if a server is missing, refuses, or answers with something else than JSON."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from keras_pe.export.runtimes.model_server import OpenInferenceModel, exchange
from keras_pe.export.runtimes.registry import find_runtimes
from tests.export.runtimes.servers import free_port, open_inference


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {"/json": (200, b'{"a": [1, 2]}'), "/html": (200, b"<html>"), "/error": (503, b"not loaded")}
        status, body = answers.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_json_is_read(server):
    assert exchange(f"{server}/json") == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/error", "answers 503 Service Unavailable: not loaded"),
        ("/missing", "answers 404 Not Found: no reason given"),
        ("/html", "does not answer in JSON: b'<html>'"),
    ],
)
def test_another_answer_is_an_error_that_quotes_it(server, path, said):
    with pytest.raises(ValueError, match=said):
        exchange(server + path)


def test_an_answer_beyond_the_limit_is_not_read(server, monkeypatch):
    monkeypatch.setattr("keras_pe.export.runtimes.model_server.ANSWER_LIMIT", 12)
    with pytest.raises(ValueError, match="more than 12 bytes"):
        exchange(f"{server}/json")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_json_does_not_have_is_not_sent(tmp_path, value):
    path = tmp_path / "model.onnx"
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    specs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in "xy"]
    graph = helper.make_graph(nodes, "graph", specs[:1], specs[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    x = np.array([[1.0, 2.0], [value, 3.0]], np.float32)
    with open_inference(path) as address:
        model = OpenInferenceModel(None, address)
        with pytest.raises(ValueError, match=rf"'x' must be finite. Received: {value} at \[1, 0\]"):
            model.run({"x": x})
        np.testing.assert_array_equal(model.run({"x": x[:1]})["y"], -x[:1])


def test_a_server_that_is_not_there_is_said_by_its_address_before_anything_runs():
    address = f"http://127.0.0.1:{free_port()}/v2/models/m"
    with pytest.raises(ImportError, match=rf"needs a server.*No server answers at {address} \(.*refused"):
        find_runtimes([address])


@pytest.mark.parametrize(
    "address", ["http://host", "http://host/v2/models/", "http://host/v3/models/m", "https://h/v2/models/m/infer"]
)
def test_an_address_of_something_else_is_refused_with_the_form_of_a_right_one(address):
    with pytest.raises(ValueError, match=r"must be http://HOST:PORT/v2/models/NAME .*Received"):
        find_runtimes([address])
