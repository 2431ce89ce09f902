"""Transpositions and Reshapes that follow one another are one or none, and a shape that is known is a constant."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
from keras import layers

from keras_pe.export import export_onnx


def _model(*kinds: layers.Layer, shape: tuple[int | None, ...] = (8, 8, 3)) -> keras.Model:
    x = y = keras.Input(shape, name="x")
    for kind in kinds:
        y = kind(y)
    return keras.Model(x, y)


def _operators(model: keras.Model, folder: Path) -> list[str]:
    return [node.op_type for node in onnx.load(export_onnx(model, folder / "model.onnx").path).graph.node]


def _convolution() -> layers.Layer:
    return layers.Conv2D(4, 3, padding="same")


CASES: dict[str, Any] = {
    "there and back": (
        lambda: [_convolution(), layers.Reshape((64, 4)), layers.Reshape((8, 8, 4)), _convolution()],
        ["Transpose", "Conv", "Conv", "Transpose"],
    ),
    "a single pixel": (
        lambda: [layers.Conv2D(4, 8), layers.Flatten(), layers.Dense(2)],
        ["Transpose", "Conv", "Reshape", "MatMul"],
    ),
    "flattened": (
        lambda: [_convolution(), layers.Flatten(), layers.Dense(2)],
        ["Transpose", "Conv", "Transpose", "Reshape", "MatMul"],
    ),
    "twice": (lambda: [layers.Reshape((4, 48)), layers.Reshape((48, 4)), layers.ReLU()], ["Reshape", "Relu"]),
}


@pytest.mark.parametrize(("build", "operators"), CASES.values(), ids=CASES.keys())
def test_as_few_are_left_as_there_need_to_be(build: Any, operators: list[str], tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    assert _operators(_model(*build()), tmp_path) == operators


def test_an_axis_that_is_open_is_copied_and_may_be_empty(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = _model(layers.Reshape((-1, 2, 3)), layers.ReLU(), shape=(5, 6))
    _operators(model, tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for batch in (0, 1, 3):
        (y,) = session.run(None, {"x": np.ones((batch, 5, 6), "float32")})
        assert y.shape == (batch, 5, 2, 3)
