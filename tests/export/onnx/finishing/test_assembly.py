"""The finished file: it says which of its tensors each layer of the model returns."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from keras import layers

from keras_pe.export import export_onnx
from keras_pe.export.runtimes.onnxruntime import OnnxRuntime

RNG = np.random.default_rng(0)


class Halves(layers.Layer):
    """Returns two tensors."""

    def call(self, x: Any) -> Any:
        return keras.ops.tanh(x[..., :2]), keras.ops.exp(x[..., 2:])


def model() -> keras.Model:
    """Returns a model with a layer in a layer, one that is called twice, and one that is an output and read within."""
    keras.utils.set_random_seed(1)
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(4, activation="relu", name="dense")], name="inner")
    x = keras.Input((4,), name="x")
    y = layers.Dropout(0.5, name="drop")(inner(inner(x)))
    one, other = Halves(name="halves")(y)
    same = layers.Reshape((2,), name="same")(one)  # the file has no Reshape
    through = layers.Dense(3, activation="tanh", name="through")(same)
    return keras.Model(x, {"through": through, "after": layers.Dense(2, name="after")(through), "other": other})


def test_the_file_says_in_which_tensors_the_outputs_of_each_layer_are(tmp_path: Path) -> None:
    sound = model()
    path = export_onnx(sound, tmp_path / "model.onnx").path
    file, graph = OnnxRuntime(str(path)), onnx.load(path).graph
    names = json.loads(file.metadata()["keras_pe.layers"])
    x = RNG.normal(size=(3, 4)).astype("float32")
    tensors = {"x": x, **file.intermediates({"x": x}, {})}
    dense = sound.get_layer("inner").get_layer("dense")
    first, second = dense(x), dense(dense(x))
    one, other = sound.get_layer("halves")(second)
    through = sound.get_layer("through")(one)
    expected = {
        "inner/dense": [first],
        "inner/dense#2": [second],
        "inner": [first],
        "inner#2": [second],
        "drop": [second],
        "halves": [one, other],
        "same": [one],
        "through": [through],
        "after": [sound.get_layer("after")(through)],
    }
    assert names.keys() == expected.keys()
    for path, outputs in expected.items():
        for name, output in zip(names[path], outputs, strict=True):
            # A dozen float32 roundings of values below 4.
            np.testing.assert_allclose(tensors[name], np.asarray(output), atol=5e-6, rtol=0, err_msg=path)
    # A tensor that is an output and is read within has one name.
    (product,) = [node for node in graph.node if "after" in node.name and node.op_type == "MatMul"]
    assert product.input[0] == names["through"][0]


class Doubled(layers.Layer):
    """Doubles the product of two tensors that another layer multiplies."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.gate = Gate(name="gate")

    def call(self, x: Any) -> Any:
        return 2.0 * self.gate(x)


class Gate(layers.Layer):
    def call(self, x: Any) -> Any:
        return x * keras.ops.sigmoid(keras.ops.mean(x, axis=-1, keepdims=True))


def test_no_tensor_is_named_for_a_product_that_tensorflow_reorders(tmp_path: Path) -> None:
    x = keras.Input((4,), name="x")
    path = export_onnx(keras.Model(x, layers.Dense(2)(Doubled(name="doubled")(x))), tmp_path / "model.onnx").path
    # The file multiplies x by twice the sigmoid, so that it has no output of the gate.
    names = json.loads(OnnxRuntime(str(path)).metadata()["keras_pe.layers"])
    assert "doubled" in names
    assert "doubled/gate" not in names
    assert all(node.name.startswith(("doubled/", "dense")) for node in onnx.load(path).graph.node)


@pytest.mark.slow
def test_layers_that_are_written_as_one_operator_have_their_tensors_said_too(tmp_path: Path) -> None:
    kinds = (
        *(layers.LayerNormalization(), layers.RMSNormalization(), layers.Dense(8, "gelu"), layers.Activation("swish")),
        *(layers.LSTM(8, return_sequences=True), layers.GRU(8, return_sequences=True), layers.SimpleRNN(8)),
    )
    path = export_onnx(keras.Sequential([keras.Input((None, 8)), *kinds, layers.Dense(2)]), tmp_path / "m.onnx").path
    names = json.loads(OnnxRuntime(str(path)).metadata()["keras_pe.layers"])
    assert {layer.name for layer in kinds} <= names.keys()
