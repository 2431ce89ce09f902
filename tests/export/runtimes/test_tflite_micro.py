"""TFLite Micro runs files for microcontrollers: recurrent layers, several inputs and outputs by name."""

from pathlib import Path

import keras
import pytest
from keras import layers

from keras_pe.export import check_parity, export_litert

pytest.importorskip("tflite_micro")


def _two_inputs() -> keras.Model:
    values, images = keras.Input((6, 4), name="values"), keras.Input((8, 8, 1), name="images")
    hidden = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(values)
    pooled = layers.GlobalAveragePooling2D()(layers.Conv2D(3, 3, activation="relu")(images))
    outputs = {"tags": layers.Dense(2)(layers.GRU(3, return_sequences=True)(hidden)), "label": layers.Dense(4)(pooled)}
    return keras.Model([values, images], outputs)


@pytest.mark.slow
def test_a_file_for_micro_agrees_in_tflite_micro_run_after_run(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = _two_inputs()
    artifact = export_litert(model, tmp_path / "model.tflite", target="micro")
    report = check_parity(model, artifact, runtimes=("tflite_micro", "litert[builtin]"))
    assert report.passed
    assert {result.runtime for result in report.results} == {"tflite_micro", "litert[builtin]"}


@pytest.mark.exhaustive
def test_four_lstm_layers_agree_in_tflite_micro(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = y = keras.Input((100, 128))
    for _ in range(4):
        y = layers.LSTM(128, return_sequences=True)(y)
    model = keras.Model(x, y)
    artifact = export_litert(model, tmp_path / "model.tflite", target="micro")
    assert check_parity(model, artifact, runtimes="tflite_micro").passed


@pytest.mark.slow
def test_an_operator_that_tflite_micro_lacks_is_its_answer(tmp_path: Path) -> None:
    x = keras.Input((4, 4), name="x")
    model = keras.Model(x, keras.ops.power(keras.ops.abs(x), 1.5))
    artifact = export_litert(model, tmp_path / "model.tflite", sizes={"batch": 1})
    (result,) = check_parity(model, artifact, runtimes="tflite_micro").results
    assert not result.passed
    assert result.error is not None
