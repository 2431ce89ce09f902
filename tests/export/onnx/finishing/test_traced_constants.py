"""Weights that the converter had to know have their names in Keras, each its own."""

from pathlib import Path

import keras
import numpy as np
import onnx
from keras import layers, ops

from keras_pe.export import export_onnx
from keras_pe.export.runtimes.onnx_intermediates import InspectedModel


def test_biases_have_the_names_that_keras_has_for_them(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((8, 8, 3), name="x")
    y = layers.Conv2D(4, 3, name="first", activation="relu", bias_initializer="ones")(x)
    y = layers.Conv2D(4, 3, name="second", bias_initializer="ones")(y)
    y = layers.Dense(2, name="head", bias_initializer="ones")(y)
    model = keras.Model(x, y)
    path = export_onnx(model, tmp_path / "model.onnx").path
    held = {tensor.name for tensor in onnx.load(path).graph.initializer}
    assert {weight.path for weight in model.weights} <= held
    stored = InspectedModel(str(path)).weights()
    for weight in model.weights:
        np.testing.assert_array_equal(stored[weight.path], np.asarray(weight))


def test_constants_of_an_operation_stay_constants(tmp_path: Path) -> None:
    x = keras.Input((4,), name="x")
    path = export_onnx(keras.Model(x, ops.count_nonzero(x, axis=1)), tmp_path / "model.onnx").path
    assert {tensor.name.split("/")[0] for tensor in onnx.load(path).graph.initializer} == {"count_nonzero"}
