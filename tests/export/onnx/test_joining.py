"""A Reshape that copies sizes keeps the Reshape before it."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from keras_pe.export import export_onnx


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_arrives_with_any_number_of_heads(tmp_path: Path, heads: int) -> None:
    inputs = keras.Input((None, 8), name="inputs")
    model = keras.Model(inputs, keras.layers.MultiHeadAttention(heads, 4)(inputs, inputs))
    artifact = export_onnx(model, tmp_path / "m.onnx")
    x = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
    (actual,) = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"]).run(None, {"inputs": x})
    # Three chained products of at most 8 terms of order 1, in float32: 3 x 8 x 6e-8, and as much again for Keras.
    np.testing.assert_allclose(actual, model(x), rtol=0, atol=3e-6)


def test_a_reshape_before_another_is_dropped_where_no_size_is_copied(tmp_path: Path) -> None:
    inputs = keras.Input((6, 4), name="inputs")
    hidden = keras.layers.Reshape((4, 6))(keras.layers.Reshape((8, 3))(inputs))
    model = keras.Model(inputs, hidden)
    artifact = export_onnx(model, tmp_path / "m.onnx")
    x = np.arange(48, dtype="float32").reshape(2, 6, 4)
    (actual,) = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"]).run(None, {"inputs": x})
    np.testing.assert_array_equal(actual, x.reshape(2, 4, 6))
    assert [node.op_type for node in onnx.load(artifact.path).graph.node].count("Reshape") == 1
