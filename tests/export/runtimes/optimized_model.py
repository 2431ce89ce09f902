"""A model in whose file ONNX Runtime applies a fusion, and a rule among several of one name."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnx.parser

_KERNEL, _BIAS = np.arange(1, 13, dtype="float32").reshape(4, 3), np.arange(1, 4, dtype="float32")
_TEXT = """<ir_version: 9, opset_import: ["": 18]>
    g (float[batch, 4] x) => (float[batch, 3] y)
    <float[4, 3] kernel = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] bias = {1, 2, 3}> {
        product = MatMul(x, kernel)
        copy = Identity(product)
        sum = Add(copy, bias)
        y = Relu(sum) }"""


def optimized_model(folder: Path) -> tuple[keras.Model, Path]:
    """Returns the model and its file, which is written by hand."""
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(3, activation="relu", name="y")])
    model.set_weights([_KERNEL, _BIAS])
    onnx.save(onnx.parser.parse_model(_TEXT), folder / "model.onnx")
    return model, folder / "model.onnx"
