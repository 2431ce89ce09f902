"""A file that opens and does not run, or returns another shape, is not published."""

from pathlib import Path
from typing import Any

import keras
import onnx
import pytest
from onnx import TensorProto, helper

from keras_pe.export import ExportError, model_signature
from keras_pe.export.onnx.verification import open_session


def written(path: Path, nodes: list[Any], initializers: list[Any]) -> Path:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length", 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", tensors[:1], tensors[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path)
    return path


@pytest.fixture
def signature() -> Any:
    x = keras.Input((None, 4), name="x")
    return model_signature(keras.Model(x, keras.layers.Activation("relu", name="y")(x)))


def test_a_sound_file_passes(tmp_path: Path, signature: Any) -> None:
    open_session(written(tmp_path / "model.onnx", [helper.make_node("Relu", ["x"], ["y"])], []), signature, "model")


def test_a_file_that_opens_and_does_not_run_is_refused(tmp_path: Path, signature: Any) -> None:
    fixed = helper.make_tensor("shape", TensorProto.INT64, [3], [1, 5, 4])
    file = written(tmp_path / "model.onnx", [helper.make_node("Reshape", ["x", "shape"], ["y"])], [fixed])
    with pytest.raises(ExportError, match="ONNX Runtime opens the file and does not run it"):
        open_session(file, signature, "model")


def test_an_output_of_another_shape_is_refused(tmp_path: Path, signature: Any) -> None:
    merged = helper.make_tensor("shape", TensorProto.INT64, [3], [1, -1, 4])
    file = written(tmp_path / "model.onnx", [helper.make_node("Reshape", ["x", "shape"], ["y"])], [merged])
    with pytest.raises(ExportError, match=r"output 'y' has the shape \(1, 33, 4\) in ONNX Runtime"):
        open_session(file, signature, "model")
