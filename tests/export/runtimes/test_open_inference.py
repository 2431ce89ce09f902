"""MLServer's answers are those of the served model, to the last bit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker
from tests.export.runtimes.external.present import mlserver_python
from tests.export.runtimes.servers import mlserver

KERNEL = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A model of two inputs and three outputs, and its address."""
    mlserver_python()
    nodes = [
        helper.make_node("Gather", ["x", "order"], ["chosen"], axis=1),
        helper.make_node("MatMul", ["chosen", "kernel"], ["y"]),
        helper.make_node("Cast", ["y"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Less", ["y", "zero"], ["negative"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 8]),
        helper.make_tensor_value_info("order", TensorProto.INT64, ["length"]),
    ]
    types = {"y": TensorProto.FLOAT, "wide": TensorProto.DOUBLE, "negative": TensorProto.BOOL}
    outputs = [helper.make_tensor_value_info(name, kind, ["batch", "length", 3]) for name, kind in types.items()]
    constants = [numpy_helper.from_array(KERNEL, "kernel"), numpy_helper.from_array(np.float32(0), "zero")]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    with mlserver(path, "small", tmp_path_factory.mktemp("server")) as address:
        yield path, address


@pytest.mark.slow
def test_the_server_returns_the_answer_of_its_runtime(served: tuple[Path, str]) -> None:
    path, address = served
    (spec,) = find_runtimes([address])
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 5, 8)).astype(np.float32) * np.float32(1e3) ** random.integers(-9, 9, (2, 5, 8))
    inputs = {"x": x.astype(np.float32), "order": np.array([4, 0, 3, 1, 2], np.int64)}
    expected = onnxruntime.InferenceSession(path).run(None, inputs)
    with Worker(spec, timeout=60) as worker:
        worker.load(None)
        assert [(i.name, i.dtype, i.shape[-1]) for i in worker.inputs] == [
            ("x", "float32", 8),
            ("order", "int64", "order_0"),
        ]
        assert worker.version.startswith("mlserver ")
        outputs = worker.run(inputs)
        assert list(outputs) == ["y", "wide", "negative"]
        for array, own in zip(outputs.values(), expected, strict=True):
            np.testing.assert_array_equal(array, own, strict=True)
        with pytest.raises(RuntimeRefusedError, match=rf"{address}/infer answers 500"):
            worker.run({"x": inputs["x"]})
        with pytest.raises(RuntimeRefusedError, match=r"complex64. Received: 'x'"):
            worker.run(inputs | {"x": x.astype(np.complex64)})
        assert set(worker.run(inputs)) == set(outputs), "the next question is answered"
