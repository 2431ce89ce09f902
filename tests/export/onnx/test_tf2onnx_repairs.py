"""Models export where tf2onnx alone fails or is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers

from keras_pe.export import export_onnx


def _upsample(interpolation: str) -> Callable[[Any], Any]:
    return lambda image: layers.UpSampling2D(interpolation=interpolation)(layers.Conv2D(1, 3)(image))


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("layer", "axes"),
    [
        pytest.param(layers.Conv2DTranspose(1, 3, strides=2, padding="same"), 2, id="transposed"),
        pytest.param(layers.Conv3DTranspose(1, 3, strides=2, padding="same"), 3, id="transposed of volumes"),
        pytest.param(_upsample("nearest"), 2, id="nearest"),
        pytest.param(_upsample("bilinear"), 2, id="bilinear"),
        pytest.param(lambda x: layers.GroupNormalization(1)(layers.Conv2D(1, 3)(x)), 2, id="normalized"),
        pytest.param(lambda x: layers.ZeroPadding2D()(layers.Conv2D(1, 3)(x)), 2, id="padded"),
        pytest.param(lambda x: layers.Cropping2D()(layers.Conv2DTranspose(1, 3)(x)), 2, id="cropped"),
    ],
)
def test_a_model_ends_in_one_channel_of_any_size(tmp_path: Path, layer: Callable[[Any], Any], axes: int) -> None:
    image = keras.Input((*(None,) * axes, 3), name="image")
    (output,) = export_onnx(keras.Model(image, layer(image)), tmp_path / "m.onnx").outputs
    assert (output.shape[0], output.shape[-1]) == ("batch", 1)
    assert all(isinstance(size, str) for size in output.shape[1:-1])
