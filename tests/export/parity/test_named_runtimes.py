"""The runtimes that run only when they are named agree as well, on a model that each of them knows."""

from pathlib import Path

import keras
import pytest

from keras_pe import SinusoidalPositionEncoding
from keras_pe.export import check_parity, export_litert, export_onnx


@pytest.mark.slow
def test_xla_the_reference_evaluator_openvino_and_litert_agree(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 16), name="x")
    y = keras.layers.Dense(8, activation="tanh", name="y")(SinusoidalPositionEncoding(start_index=3)(x))
    model = keras.Model(x, y)
    artifacts = [export_onnx(model, tmp_path / "model.onnx"), export_litert(model, tmp_path / "model.tflite")]
    named = ["keras[xla]", "onnx_reference", "openvino", "litert"]
    report = check_parity(model, artifacts, runtimes=named)
    assert sorted(result.runtime for result in report.results) == sorted(named)
    assert report.passed, str(report)
