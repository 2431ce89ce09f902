"""Faults of the gallery in runtimes, servers and Keras, with a right file or without a file."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import keras
import numpy as np
from edited_files import EDITED
from fault_examples import Example, functional, seeded
from keras import layers as L  # noqa: N812
from mistaken_delegates import mistaken_delegate
from mistaken_runtimes import Crashing, Hanging, Listing, Misoptimizing, Older

from keras_pe.export import Cause, check_parity, export_litert, export_onnx
from keras_pe.export.records import ParityReport
from keras_pe.export.runtimes import RuntimeSpec
from keras_pe.export.runtimes.onnxruntime import OnnxRuntime
from keras_pe.export.runtimes.registry import find_runtimes


def faulty_runtime(runtime: type[OnnxRuntime]) -> RuntimeSpec:
    """Returns the specification of a faulty runtime of this folder."""
    (spec,) = find_runtimes(["onnxruntime[all]"])
    return replace(spec, name="onnxruntime[faulty]", factory=f"{runtime.__module__}:{runtime.__name__}")


def _sound(path: Path) -> keras.Model:
    model = seeded(functional(lambda x, is_wrong: L.Dense(8, "tanh", name="mix")(x), 8)(False))
    export_onnx(model, path)
    return model


def _for_phones(path: Path) -> keras.Model:
    model = seeded(functional(lambda x, is_wrong: L.Dense(16, "tanh", name="mix")(x), 8)(False))
    # A format follows from the content of a file, and an exporter refuses the name of another format.
    export_litert(model, path.with_suffix(".tflite")).path.rename(path)
    return model


def _heads(path: Path) -> keras.Model:
    split = L.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="d", name="split")
    model = seeded(functional(lambda x, is_wrong: split(x), None, 6)(False))
    export_onnx(model, path)
    return model


@contextmanager
def _served(path: Path) -> Iterator[str]:
    """Serves a file with the Open Inference Protocol. The value is the model's address."""
    runtime = OnnxRuntime(str(path))
    (spec,) = runtime.inputs
    shape = [size if isinstance(size, int) else -1 for size in spec.shape]
    about = {"name": "a server", "version": "1.0", "inputs": [{"name": spec.name, "datatype": "FP32", "shape": shape}]}

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer(about)

        def do_POST(self) -> None:
            (given,) = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
            outputs = runtime.run({given["name"]: np.array(given["data"], np.float32).reshape(given["shape"])})
            outputs = [
                {"name": name, "datatype": "FP32", "shape": array.shape, "data": array.ravel().tolist()}
                for name, array in outputs.items()
            ]
            self._answer({"outputs": outputs})

        def log_message(self, *args: Any) -> None:
            """Prints nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v2/models/model"
        server.shutdown()
        thread.join()


def _check_server(model: keras.Model, path: Path) -> ParityReport:
    with _served(path) as address:
        return check_parity(model, path, runtimes=["onnxruntime[all]", address])


NOT_OF_FILES: Mapping[Cause, Example] = {
    Cause.CRASH: Example(
        "The runtime ends its process.", _sound, partial(check_parity, runtimes=faulty_runtime(Crashing))
    ),
    Cause.HANG: Example(
        "The runtime does not answer.", _sound, partial(check_parity, runtimes=faulty_runtime(Hanging), timeout=5.0)
    ),
    Cause.INVALID_ANSWER: Example(
        "The runtime returns a list.", _sound, partial(check_parity, runtimes=faulty_runtime(Listing))
    ),
    Cause.GRAPH_OPTIMIZATION: Example(
        "An optimization of the runtime adds one.",
        _sound,
        partial(check_parity, runtimes=faulty_runtime(Misoptimizing)),
    ),
    Cause.COMPUTED_IN_16_BITS: Example(
        "A GPU computes in float16.", _for_phones, partial(check_parity, runtimes=mistaken_delegate(dtype="float16"))
    ),
    Cause.ZERO_VECTOR: Example(
        "A GPU returns zeros for matrix products.",
        _for_phones,
        partial(check_parity, runtimes=mistaken_delegate(kinds=["FULLY_CONNECTED"], factor=0.0)),
    ),
    Cause.WRONG_OPERATOR: Example(
        "A GPU computes a tanh that is 10 % too large.",
        _for_phones,
        partial(check_parity, runtimes=mistaken_delegate(kinds=["TANH"], factor=1.1)),
    ),
    Cause.KERAS_ITSELF: Example("Keras adds a bias for two heads along the length where that is two as well.", _heads),
    Cause.OTHER_RELEASE: Example(
        "An older release adds a tenth.",
        _sound,
        partial(check_parity, runtimes=["onnxruntime[all]", faulty_runtime(Older)]),
    ),
    Cause.SERVED_FILE: Example(
        "A server has a file of which a weight was changed.", EDITED[Cause.CHANGED_VALUES].make, _check_server
    ),
}
"""The fault of each cause that no file makes by itself."""
