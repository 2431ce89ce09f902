"""A file that was quantized with calibration is called quantized, although it folds activations into zero points."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from keras_pe.export import Cause, check_parity, export_onnx


class Rows(CalibrationDataReader):
    def __init__(self, images: np.ndarray) -> None:
        self._rest: Iterator[Mapping[str, np.ndarray]] = iter([{"image": images[:32]}, {"image": images[32:]}])

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self._rest, None)


def convolutions() -> Any:
    image = keras.Input((12, 12, 1), name="image")
    x = layers.Conv2D(8, 3, activation="relu", name="first")(image)
    x = layers.Conv2D(8, 3, activation="relu", name="second")(layers.MaxPooling2D(name="pool")(x))
    return keras.Model(image, layers.Dense(4, name="scores")(layers.GlobalAveragePooling2D(name="mean")(x)), name="cnn")


def residual() -> Any:
    image = keras.Input((12, 12, 1), name="image")
    x = layers.Conv2D(8, 3, padding="same", activation="relu", name="first")(image)
    y = layers.BatchNormalization(name="norm")(layers.Conv2D(8, 3, padding="same", name="second")(x))
    x = layers.Add(name="sum")([x, layers.ReLU(name="relu")(y)])
    return keras.Model(image, layers.Dense(4, name="scores")(layers.GlobalAveragePooling2D(name="mean")(x)), name="res")


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "format", "activations"),
    [
        (convolutions, QuantFormat.QDQ, QuantType.QUInt8),
        (convolutions, QuantFormat.QOperator, QuantType.QInt8),
        (residual, QuantFormat.QDQ, QuantType.QInt8),
        (residual, QuantFormat.QOperator, QuantType.QUInt8),
    ],
)
def test_static_quantization_is_called_nothing_else(
    tmp_path: Path, build: Any, format: QuantFormat, activations: QuantType
) -> None:
    keras.utils.set_random_seed(0)
    model = build()
    export_onnx(model, tmp_path / "model.onnx")
    images = np.random.default_rng(0).normal(size=(64, 12, 12, 1)).astype("float32")
    path = tmp_path / "quantized.onnx"
    quantize_static(tmp_path / "model.onnx", path, Rows(images), quant_format=format, activation_type=activations)
    report = check_parity(model, path, runtimes="onnxruntime[all]")
    assert not report.passed
    assert {finding.cause for finding in report.findings} == {Cause.QUANTIZED_INT8}, str(report)
