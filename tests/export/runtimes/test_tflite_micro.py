"""TFLite Micro runs files for microcontrollers: recurrent layers, several inputs and outputs by name."""

from collections import Counter
from pathlib import Path

import keras
import pytest
from keras import layers, ops

from keras_pe.export import check_parity, export_litert
from keras_pe.export.artifacts.litert_operators import read_operators

pytest.importorskip("tflite_micro")


def _two_inputs() -> keras.Model:
    values, images = keras.Input((6, 4), name="values"), keras.Input((8, 8, 1), name="images")
    hidden = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(values)
    pooled = layers.GlobalAveragePooling2D()(layers.Conv2D(3, 3, activation="relu")(images))
    outputs = {"tags": layers.Dense(2)(layers.GRU(3, return_sequences=True)(hidden)), "label": layers.Dense(4)(pooled)}
    copies = layers.RepeatVector(13)(pooled)  # TFLite Micro joins ten tensors at most
    flags = ops.transpose(ops.cast(copies, "bool"))  # and transposes no bool
    return keras.Model([values, images], {**outputs, "copies": copies, "flags": ops.cast(flags, "int32")})


@pytest.mark.slow
def test_a_file_for_micro_agrees_in_tflite_micro_run_after_run(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = _two_inputs()
    artifact = export_litert(model, tmp_path / "model.tflite", target="micro")
    report = check_parity(model, artifact, runtimes=("tflite_micro", "litert[builtin]"))
    assert report.passed
    assert {result.runtime for result in report.results} == {"tflite_micro", "litert[builtin]"}


@pytest.mark.exhaustive
def test_four_lstm_layers_are_four_operators_that_agree_in_tflite_micro(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = y = keras.Input((100, 128))
    for _ in range(4):
        y = layers.LSTM(128, return_sequences=True)(y)
    model = keras.Model(x, y)
    artifact = export_litert(model, tmp_path / "model.tflite", target="micro")
    kinds = Counter(operator.kind for operator in read_operators(artifact.path.read_bytes()))
    assert (kinds["UNIDIRECTIONAL_SEQUENCE_LSTM"], kinds["WHILE"]) == (4, 0)
    assert check_parity(model, artifact, runtimes=("tflite_micro", "litert", "litert[builtin]")).passed


@pytest.mark.slow
def test_an_operator_that_tflite_micro_lacks_is_its_answer(tmp_path: Path) -> None:
    x = keras.Input((4, 4), name="x")
    model = keras.Model(x, keras.ops.power(keras.ops.abs(x), 1.5))
    artifact = export_litert(model, tmp_path / "model.tflite", sizes={"batch": 1})
    (result,) = check_parity(model, artifact, runtimes="tflite_micro").results
    assert not result.passed
    assert result.error is not None
