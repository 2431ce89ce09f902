"""A file that opens and does not run, or returns something else than Keras, is not published."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export import ExportError, InvalidArtifactError, UnsupportedError, export_onnx, model_signature
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.onnx.exporter import check_file, check_graph
from keras_pe.export.runtimes.shared_workers import onnxruntime_process


def written(path: Path, nodes: list[Any], initializers: list[Any]) -> Path:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length", 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", tensors[:1], tensors[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path)
    return path


def check(file: Path) -> None:
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, keras.layers.Activation("relu", name="y")(x))
    with onnxruntime_process() as worker:
        check_file(all_layers(model), file, worker, KerasReference(model, model_signature(model)))


def test_a_sound_file_passes(tmp_path: Path) -> None:
    check(written(tmp_path / "model.onnx", [helper.make_node("Relu", ["x"], ["y"])], []))


def test_a_file_that_opens_and_does_not_run_is_refused(tmp_path: Path) -> None:
    fixed = helper.make_tensor("shape", TensorProto.INT64, [3], [1, 5, 4])
    file = written(tmp_path / "model.onnx", [helper.make_node("Reshape", ["x", "shape"], ["y"])], [fixed])
    with pytest.raises(ExportError, match="the runtime opens it and does not run it"):
        check(file)


def test_an_output_of_another_shape_is_refused(tmp_path: Path) -> None:
    merged = helper.make_tensor("shape", TensorProto.INT64, [3], [1, -1, 4])
    file = written(tmp_path / "model.onnx", [helper.make_node("Reshape", ["x", "shape"], ["y"])], [merged])
    with pytest.raises(ExportError, match=r"output 'y' has the shape \(1, 33, 4\), in Keras \(3, 11, 4\)"):
        check(file)


def test_inference_needs_no_values_of_weights_beside_the_graph(tmp_path: Path) -> None:
    table = numpy_helper.from_array(np.arange(8, dtype="int32"), "table")
    row = helper.make_tensor_value_info("row", TensorProto.INT32, [])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [])
    graph = helper.make_graph([helper.make_node("Gather", ["table", "row"], ["y"])], "graph", [row], [y], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    check_graph(tmp_path / "model.onnx", "model")


def _name_no_graph(model: onnx.ModelProto) -> None:
    model.graph.name = ""


def _swap_nodes(model: onnx.ModelProto) -> None:
    model.graph.node.insert(0, model.graph.node.pop())


def _repeat_a_key(model: onnx.ModelProto) -> None:
    for value in ("1", "2"):
        model.metadata_props.add(key="key", value=value)


def _declare_another_size(model: onnx.ModelProto) -> None:
    model.graph.value_info.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", "length", 5]))


@pytest.mark.parametrize("damage", [_name_no_graph, _swap_nodes, _repeat_a_key, _declare_another_size])
def test_the_checker_and_strict_inference_read_the_file_that_is_run(
    tmp_path: Path, damage: Callable[[onnx.ModelProto], None]
) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    file = written(tmp_path / "model.onnx", nodes, [])
    check(file)
    model = onnx.load(file)
    damage(model)
    onnx.save(model, file)
    with pytest.raises(InvalidArtifactError, match="not valid ONNX"):
        check(file)


def test_an_output_of_other_numbers_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "model.onnx", [helper.make_node("LeakyRelu", ["x"], ["y"])], [])
    with pytest.raises(ExportError, match=r"output 'y' differs from Keras' by 0\.\d+, where .* is 2\.\d"):
        check(file)


def test_a_number_type_that_onnx_runtime_has_no_code_for_is_refused_with_the_way_out(tmp_path: Path) -> None:
    x = keras.Input((8, 8, 3), dtype="float64")
    model = keras.Model(x, keras.layers.Conv2D(2, 3, dtype="float64")(x))
    with pytest.raises(UnsupportedError, match=r"no kernel of operator 'Conv' .* float64: build it under") as caught:
        export_onnx(model, tmp_path / "m.onnx")
    assert caught.value.operator == "Conv"
