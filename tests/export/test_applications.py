"""Every family of `keras.applications` arrives, at sizes that its export did not look at, with trained statistics."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest

from keras_pe.export import export_onnx
from tests.export.zoo.statistics import as_trained

# The smallest of each family, and the sizes of images that all of them take.
FAMILIES = (
    "ConvNeXtTiny",
    "DenseNet121",
    "EfficientNetB0",
    "EfficientNetV2B0",
    "InceptionResNetV2",
    "InceptionV3",
    "MobileNet",
    "MobileNetV2",
    "MobileNetV3Small",
    "NASNetMobile",
    "ResNet50",
    "ResNet50V2",
    "VGG16",
    "Xception",
)
SMALLEST = 96
SAMPLE = ("MobileNet", "ResNet50V2")  # the slow run takes these
# Of the largest value. Some two hundred layers each round once, to 2**-24, and their errors add up like a random walk
# that the normalizations stretch by at most a few times: far below this, as is ONNX Runtime's other order of the sums.
TOLERANCE = 2e-4


@pytest.mark.parametrize("is_free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in SAMPLE else pytest.mark.exhaustive) for n in FAMILIES],
)
def test_an_application_agrees_with_keras(name: str, is_free: bool, tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    shape = (None, None, 3) if is_free else (SMALLEST, SMALLEST, 3)
    options: dict[str, Any] = {"weights": None, "include_top": False, "pooling": "avg", "input_shape": shape}
    model = as_trained(getattr(keras.applications, name)(**options))
    artifact = export_onnx(model, tmp_path / "model.onnx")
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    (given,) = artifact.inputs
    trials = [(2, 101, 147), (1, 128, 99), (3, 160, 224)] if is_free else [(n, SMALLEST, SMALLEST) for n in (1, 4, 5)]
    for trial in trials:
        images = np.random.default_rng(trial[0]).uniform(0, 255, (*trial, 3)).astype("float32")
        expected = np.asarray(model(images, training=False))
        (actual,) = session.run(None, {given.name: images})
        largest = np.abs(expected).max()
        assert largest > 0
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * largest, strict=True)
