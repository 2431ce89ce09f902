"""Operators between two 1-D convolutions compute on images with height 1, without a Squeeze in between."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
from keras import layers

from keras_pe.export import check_parity, export_onnx

LINE = (16, 4)


def _plain(x: keras.KerasTensor) -> keras.KerasTensor:
    y = layers.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="relu")(x)
    return layers.Conv1D(4, 3, padding="same")(layers.MaxPooling1D()(layers.LeakyReLU()(y)))


def _side_by_side(x: keras.KerasTensor) -> keras.KerasTensor:
    y = layers.Conv1D(4, 1)(x)
    y = layers.Add()([y, layers.Conv1D(4, 3, padding="causal", activation="elu")(y)])
    return layers.Conv1D(2, 3)(layers.Concatenate()([layers.Conv1D(3, 3, padding="same")(y), y]))


@pytest.mark.parametrize("build", [_plain, _side_by_side])
def test_a_line_is_an_image_from_the_first_convolution_to_the_last(
    build: Callable[[keras.KerasTensor], keras.KerasTensor], tmp_path: Path
) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input(LINE)
    model = keras.Model(x, build(x))
    for weight in model.weights:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    nodes = onnx.load(export_onnx(model, tmp_path / "line.onnx").path).graph.node
    found = [node.op_type for node in nodes]
    assert [found.count(kind) for kind in ("Unsqueeze", "Squeeze", "Transpose")] == [1, 1, 2]
    assert all(len(node.input) == 3 for node in nodes if node.op_type == "Conv")  # its bias is its own


def test_an_axis_that_other_layers_drop_stays_where_it_is(tmp_path: Path) -> None:
    x = keras.Input(LINE)
    model = keras.Model(x, layers.ReLU()(keras.ops.squeeze(keras.ops.max(x, 1, keepdims=True), 1)))
    found = [node.op_type for node in onnx.load(export_onnx(model, tmp_path / "m.onnx").path).graph.node]
    assert found[-1] == "Relu"


@pytest.mark.slow
def test_a_fault_in_a_line_is_found_in_its_layer(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input(LINE)
    model = keras.Model(x, _side_by_side(x))
    path = export_onnx(model, tmp_path / "line.onnx").path
    proto = onnx.load(path)
    (kernel,) = (each for each in proto.graph.initializer if each.name == model.layers[-3].kernel.path)
    kernel.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(kernel), kernel.name))
    onnx.save(proto, path)
    (result,) = check_parity(model, path, runtimes=["onnxruntime[all]"]).results
    assert [each.layer for each in result.layers if each.originates_here] == [model.layers[-3].name]
