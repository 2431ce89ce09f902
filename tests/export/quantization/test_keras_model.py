"""`quantize` with Keras' own quantizers: only some layers are quantized, and Keras alone repeats the file."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import export_litert, export_onnx, quantize, read_artifact
from keras_pe.export.quantization.layer_nodes import Node, nodes_of_layers
from tests.export.quantization.samples import ROWS, write_classifier
from tests.export.runtimes.external.present import need_package
from tests.raised import about

# A user's script: Keras and the export alone, with the plan.
REPEAT = """
import json, sys
from pathlib import Path
import keras
from keras_pe.export import export_onnx
source, plan_file, target = sys.argv[1:]
options = json.loads(Path(plan_file).read_text())["options"]
model = keras.models.load_model(source)
model.quantize(options["mode"], filters=lambda layer: layer.path not in options["layers_in_float"])
export_onnx(model, target)
"""
WORDS = np.random.default_rng(0).integers(0, 500, (400, 6)).astype("int32")


def write_model(folder: Path) -> Path:
    """Writes a model with an embedding, a layer in a nested model, and a convolution, which Keras leaves in float."""
    keras.utils.set_random_seed(0)
    inner = keras.Input((6, 32))
    hidden = keras.Model(inner, keras.layers.Dense(512, activation="relu", name="wide")(inner), name="inner")
    words = keras.Input((6,), dtype="int32", name="words")
    x = keras.layers.Conv1D(32, 3, padding="same", name="near")(keras.layers.Embedding(500, 32, name="table")(words))
    x = keras.layers.GlobalAveragePooling1D(name="mean")(hidden(x))
    model = keras.Model(words, keras.layers.Dense(4, activation="softmax", name="class")(x))
    model.save(folder / "model.keras")
    return folder / "model.keras"


@pytest.mark.slow
def test_keras_quantizes_the_layers_outside_the_plan_and_repeats_the_bytes(tmp_path: Path) -> None:
    model, target = write_model(tmp_path), tmp_path / "int8.onnx"
    source = export_onnx(model, tmp_path / "model.onnx")
    report = quantize(model, source, target, {"words": WORDS}, size=0.9, trials=3, method="keras-int8")
    assert {each.layer for each in report.layers} == {"table", "wide", "class"}
    assert set(report.left) == {"near (Conv)"}
    floats = {each.layer for each in report.layers if each.in_float}
    weights = (each for each in onnx.load(target).graph.initializer if len(each.dims) > 1)
    quantized = {each.name.split("/")[-2] for each in weights if each.data_type != onnx.TensorProto.FLOAT}
    assert floats
    assert quantized == {"table", "wide", "class"} - floats

    script = tmp_path / "repeat.py"
    script.write_text(REPEAT)
    arguments = [sys.executable, str(script), str(model), str(report.plan), str(tmp_path / "again.onnx")]
    subprocess.run(arguments, check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "again.onnx").read_bytes() == target.read_bytes()
    assert json.loads(Path(str(report.plan)).read_text())["options"] == {
        "mode": "int8",
        "layers_in_float": sorted(floats),
    }


def test_a_quantizer_of_keras_needs_a_keras_model(tmp_path: Path) -> None:
    file = write_classifier(tmp_path / "model.onnx")
    with pytest.raises(ValueError, check=about("model")):
        quantize(file, file, tmp_path / "int8.onnx", {"x": np.zeros((9, 16))}, size=0.5, method="keras-int8")


@pytest.mark.slow
def test_keras_quantizes_a_litert_file_in_8_bits_alone(tmp_path: Path) -> None:
    need_package("ai_edge_quantizer")
    model, target = write_model(tmp_path), tmp_path / "int8.tflite"
    source = export_litert(model, tmp_path / "model.tflite")
    report = quantize(model, source, target, {"words": WORDS}, size=0.9, trials=1, method="keras-int8")
    assert report.passed
    assert {each.layer for each in report.layers} == {"table", "wide", "class"}
    with pytest.raises(ValueError, check=about("method")):
        quantize(model, source, target, {"words": WORDS}, size=0.9, method="keras-int4")


def nodes_at(*layers: str) -> list[Node]:
    return [Node(f"{layer}/MatMul", layer, "MatMul") for layer in layers]


def test_quantized_layers_without_nodes_have_those_of_the_nearest_layer_around_them() -> None:
    nodes = nodes_at("td", "head", "model")
    inner = ("td/inner", "td/block/deep")
    paths = {**{path: path for path in inner}, **{f"model/{path}": path for path in inner}}
    taken, left = nodes_of_layers(nodes, {**paths, "head": "head", "model/head": "head"})
    assert [node.layer for node in taken] == [*inner, "head"]
    assert left == [nodes[2]]


def test_layers_of_a_file_from_another_process_may_have_other_numbers() -> None:
    nodes = nodes_at("dense", "dense_1", "time_distributed", "head")
    paths = ("dense_3", "dense_4", "time_distributed_2/dense_5", "head")
    taken, left = nodes_of_layers(nodes, {path: path for path in paths})
    assert [node.layer for node in taken] == [*paths]
    assert not left


@pytest.mark.slow
def test_the_file_of_a_rebuilt_model_has_the_names_of_the_float_file(tmp_path: Path) -> None:
    def build() -> keras.Model:
        inputs = keras.Input((16,), name="x")
        x = keras.layers.Dense(512, activation="relu")(inputs)
        return keras.Model(inputs, keras.layers.Dense(4, activation="softmax")(x))

    first, target = build(), tmp_path / "int8.onnx"
    source = export_onnx(first, tmp_path / "model.onnx")
    rebuilt = build()
    rebuilt.set_weights(first.get_weights())
    report = quantize(rebuilt, source, target, {"x": ROWS[:500]}, size=0.9, trials=1, method="keras-int8")
    assert {each.layer for each in report.layers} == {each.name for each in rebuilt.layers[1:]}
    assert all(each.effect > 0 for each in report.layers)
    assert read_artifact(target).outputs[0].name == source.outputs[0].name
