"""Convolutions and pools whose stride is larger than their window return what Keras returns, at any size."""

from pathlib import Path

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import export_onnx
from tests.export.onnx.exported import export_and_compare, file_operators

L = keras.layers
LAYERS = {
    "Conv1D": (1, lambda: L.Conv1D(2, 3, strides=7, padding="same")),
    "Conv2D": (2, lambda: L.Conv2D(2, 3, strides=8, padding="same")),
    "Conv2D, one pixel": (2, lambda: L.Conv2D(2, 1, strides=4, padding="same")),
    "Conv2D, sparse along one axis": (2, lambda: L.Conv2D(2, (2, 5), strides=(5, 2), padding="same")),
    "DepthwiseConv2D": (2, lambda: L.DepthwiseConv2D(2, strides=5, padding="same")),
    "Conv3D": (3, lambda: L.Conv3D(2, 2, strides=5, padding="same")),
    "MaxPooling2D": (2, lambda: L.MaxPooling2D(2, strides=6, padding="same")),
    "AveragePooling1D": (1, lambda: L.AveragePooling1D(2, strides=5, padding="same")),
    "AveragePooling2D": (2, lambda: L.AveragePooling2D(3, strides=7, padding="same")),
}


def test_nothing_is_cut_off_a_line(tmp_path: Path) -> None:
    inputs = keras.Input((None, 3))
    layer = L.DepthwiseConv1D(3, strides=2, padding="same")
    assert "Slice" not in file_operators(export_onnx(keras.Model(inputs, layer(inputs)), tmp_path / "m.onnx").path)


@pytest.mark.slow
def test_every_remainder_of_the_size_is_right(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    inputs = [keras.Input((*(None,) * axes, 3), name=f"images_{axes}d") for axes in (1, 2, 3)]
    model = keras.Model(inputs, [layer()(inputs[axes - 1]) for axes, layer in LAYERS.values()])
    rng = np.random.default_rng(0)

    def draw_images(size: int) -> list[np.ndarray]:
        return [rng.normal(size=(2, *(size + i for i in range(axes)), 3)).astype("float32") for axes in (1, 2, 3)]

    # Up to 24 products of values near 1 are added, each sum rounded to float32.
    path = export_and_compare(model, tmp_path / "m.onnx", *map(draw_images, range(1, 19)), atol=5e-6).path
    nodes = onnx.load(path).graph.node
    sources = {name: node.op_type for node in nodes for name in node.output}
    padded = [node.input[0] for node in nodes if any(attribute.s == b"SAME_UPPER" for attribute in node.attribute)]
    assert [sources[name] for name in padded] == ["Slice"] * len(LAYERS)  # nothing is left for a padding below zero
