"""Faults of a runtime with a right LiteRT file are named with the layer: short floats, zeros, wrong operators."""

from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers
from mistaken_delegates import mistaken_delegate

from keras_pe.export import check_parity, export_litert

FAULTS: dict[str, tuple[dict[str, Any], list[tuple[str, str | None]]]] = {
    "no fault": ({}, []),
    "float16": ({"dtype": "float16"}, [("computed in 16 bits", None)]),
    "zeros": ({"kinds": ["CONV_2D"], "factor": 0.0}, [("zero vector from a delegate", "look")]),
    "1 %": ({"kinds": ["SOFTMAX"], "factor": 0.99}, [("wrong operator of a delegate", "score")]),
}


@pytest.mark.slow
def test_the_fault_of_a_delegate_is_named_with_its_layer(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((8, 8, 3), name="x")
    y = layers.Flatten()(layers.Conv2D(4, 3, activation="relu", name="look")(x))
    y = layers.Dense(12, name="mix")(y)
    model = keras.Model(x, layers.Dense(5, "softmax", name="score")(y))
    artifact = export_litert(model, tmp_path / "model.tflite")
    for name, (options, expected) in FAULTS.items():
        (result,) = check_parity(model, artifact, runtimes=[mistaken_delegate(**options)]).results
        assert [(each.cause, each.layer) for each in result.findings] == expected, name
        assert result.passed == (not expected)


@pytest.mark.exhaustive
def test_a_function_with_an_error_of_many_roundings_is_named_if_no_other_operator_differs(tmp_path: Path) -> None:
    x = keras.Input((8,), name="x")
    y = layers.Activation("tanh", name="squash")(layers.Rescaling(1e-3, 0.5)(x))
    model = keras.Model(x, layers.Rescaling(1.0, -0.46211716, name="shift")(y))  # tanh(0.5): a small difference is left
    artifact = export_litert(model, tmp_path / "model.tflite")
    delegate = mistaken_delegate(kinds=["TANH"], factor=1 + 8e-6)
    (result,) = check_parity(model, artifact, runtimes=[delegate]).results
    assert [(each.cause, each.layer) for each in result.findings] == [("wrong operator of a delegate", "squash")]
