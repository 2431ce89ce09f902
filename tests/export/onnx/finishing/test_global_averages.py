"""An average over an image is one pooling, where its digits are as Keras'."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime
import pytest

from keras_pe.export import export_onnx

L = keras.layers


def _gate_channels(shape: tuple[int | None, ...], dtype: str = "float32") -> keras.Model:
    """A block of squeeze and excitation."""
    keras.utils.set_random_seed(0)
    x = keras.Input(shape, name="x")
    y = L.Conv2D(4, 3, padding="same", dtype=dtype)(x)
    gate = L.Conv2D(4, 1, activation="sigmoid", dtype=dtype)(L.GlobalAveragePooling2D(keepdims=True, dtype=dtype)(y))
    return keras.Model(x, L.Multiply(dtype=dtype)([y, gate]))


@pytest.mark.parametrize(("model", "operator"), [
    (lambda: _gate_channels((8, 6, 3)), "GlobalAveragePool"),
    (lambda: _gate_channels((65, 64, 3)), "ReduceMean"),
    (lambda: _gate_channels((None, 6, 3)), "ReduceMean"),
    (lambda: keras.Sequential([keras.Input((8, 6)), L.Lambda(lambda x: keras.ops.mean(x, -1, keepdims=True))]),
     "ReduceMean"),
], ids=["an image", "a large one", "one of any size", "rows"])  # fmt: skip
def test_an_average_is_the_operator_that_is_as_exact(model, operator: str, tmp_path: Path) -> None:
    artifact = export_onnx(model(), tmp_path / "model.onnx")
    found = [node.op_type for node in onnx.load(artifact.path).graph.node]
    assert {operator} == {"GlobalAveragePool", "ReduceMean"} & set(found)


def test_no_image_has_no_average(tmp_path: Path) -> None:
    artifact = export_onnx(_gate_channels((8, 6, 3)), tmp_path / "model.onnx")
    (found,) = onnxruntime.InferenceSession(artifact.path).run(None, {"x": np.zeros((0, 8, 6, 3), "float32")})
    assert found.shape == (0, 8, 6, 4)
