"""A file that opens and does not run, or returns something else than Keras, is not published."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export import ExportError, InvalidArtifactError, UnsupportedError, export_onnx, model_signature
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.onnx.exporter import check_file, check_graph
from keras_pe.export.runtimes.shared_workers import onnxruntime_process
from tests.export.onnx.graph_text import read_graph


def written(path: Path, nodes: str, constants: str = "") -> Path:
    """Writes a file of the nodes between `x` and `y`."""
    shape = "float[batch, length, 4]"
    onnx.save(ir.to_proto(read_graph(f"({shape} x) => ({shape} y) {constants} {{ {nodes} }}")), path)
    return path


def check(file: Path) -> None:
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, keras.layers.Activation("relu", name="y")(x))
    with onnxruntime_process() as worker:
        check_file(all_layers(model), file, worker, KerasReference(model, model_signature(model)))


# The nodes and the constants of a file, and the refusal.
UNSOUND = {
    "it opens and does not run": (
        "y = Reshape(x, shape)", "<int64[3] shape = {1, 5, 4}>", "the runtime opens it and does not run it"),
    "an output of another shape": ("y = Reshape(x, shape)", "<int64[3] shape = {1, -1, 4}>",
        r"output 'y' has the shape \(1, 33, 4\), in Keras \(3, 11, 4\)"),
    "an output of other numbers": (
        "y = LeakyRelu(x)", "", r"output 'y' differs from Keras' by 0\.\d+, where .* is 2\.\d"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants", "words"), UNSOUND.values(), ids=UNSOUND)
def test_a_file_that_is_not_the_model_is_refused(nodes: str, constants: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=words):
        check(written(tmp_path / "model.onnx", nodes, constants))


def test_inference_needs_no_values_of_weights_beside_the_graph(tmp_path: Path) -> None:
    table = numpy_helper.from_array(np.arange(8, dtype="int32"), "table")
    model = ir.to_proto(read_graph("(int32[8] table, int32 row) => (int32 y) { y = Gather(table, row) }"))
    model.graph.input.pop(0)
    model.graph.initializer.append(table)
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
    file = written(tmp_path / "model.onnx", "z = Relu(x)  y = Relu(z)")
    check(file)
    model = onnx.load(file)
    damage(model)
    onnx.save(model, file)
    with pytest.raises(InvalidArtifactError, match="not valid ONNX"):
        check(file)


def test_a_number_type_that_onnx_runtime_has_no_code_for_is_refused_with_the_way_out(tmp_path: Path) -> None:
    x = keras.Input((8, 8, 3), dtype="float64")
    model = keras.Model(x, keras.layers.Conv2D(2, 3, dtype="float64")(x))
    with pytest.raises(UnsupportedError, match=r"no kernel of operator 'Conv' .* float64: build it under") as caught:
        export_onnx(model, tmp_path / "m.onnx")
    assert caught.value.operator == "Conv"
