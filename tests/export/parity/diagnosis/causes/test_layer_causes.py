"""Causes of the layers at fault, each said of its own layer."""

from pathlib import Path
from typing import Any

import keras
import pytest

from keras_pe.export import check_parity, export_litert, export_onnx


def _attention(is_causal: bool) -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((6, 8), name="x")
    y = keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x, use_causal_mask=is_causal)
    return keras.Model(x, keras.layers.Dense(3, name="y")(y))


@pytest.mark.slow
def test_a_cause_that_only_the_inside_of_a_litert_file_shows_is_named(tmp_path):
    artifact = export_litert(_attention(is_causal=True), tmp_path / "model.tflite")
    (result,) = check_parity(_attention(is_causal=False), artifact, runtimes="litert").results
    assert [(finding.layer, finding.cause) for finding in result.findings] == [("attention", "added causal mask")]


class Doubled(keras.layers.Layer):
    """Rounds to multiples of 2."""

    def __init__(self, function: Any, **options: Any) -> None:
        super().__init__(**options)
        self.function = function

    def call(self, x: Any) -> Any:
        return 2 * self.function(x / 2)


@pytest.mark.slow
def test_a_factor_that_the_converter_moves_into_the_weights_of_the_next_layer_is_not_a_cause(tmp_path):
    models = []
    for function in (keras.ops.round, keras.ops.floor):
        keras.utils.set_random_seed(0)
        x = keras.Input((4,), name="x")
        models.append(keras.Model(x, keras.layers.Dense(3, name="y")(Doubled(function, name="steps")(x))))
    artifact = export_litert(models[1], tmp_path / "model.tflite")
    (result,) = check_parity(models[0], artifact, runtimes="litert").results
    assert [finding.layer for finding in result.findings] == ["steps"]


def _shared_trunk(takes_one_input_twice: bool) -> keras.Model:
    keras.utils.set_random_seed(0)
    sizes = {"first": 6, "second": 6, "third": 4}
    layers = [keras.layers.Dense(size, "tanh", name=name) for name, size in sizes.items()]
    trunk = keras.Sequential([keras.Input((5,)), *layers], name="trunk")
    a, b = keras.Input((5,), name="a"), keras.Input((5,), name="b")
    joined = keras.layers.Concatenate(name="join")([trunk(a), trunk(a if takes_one_input_twice else b)])
    return keras.Model([a, b], keras.layers.Dense(3, name="head")(joined), name="model")


def _skipping(begins_elsewhere: bool) -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((6,), name="x")
    first = keras.layers.Dense(6, "tanh", name="first")(x)
    second = keras.layers.Dense(6, "tanh", name="second")(first)
    joined = keras.layers.Add(name="join")([x if begins_elsewhere else first, second])
    return keras.Model(x, keras.layers.Dense(3, name="head")(joined), name="model")


@pytest.mark.slow
@pytest.mark.parametrize(("build", "layer"), [(_shared_trunk, "trunk"), (_skipping, "join")])
def test_a_wrong_input_is_said_once_of_what_is_given_it(build: Any, layer: str, tmp_path: Path) -> None:
    wrong = build(True)
    wrong.set_weights(build(False).get_weights())
    artifact = export_onnx(wrong, tmp_path / "model.onnx")
    (result,) = check_parity(build(False), artifact, runtimes="onnxruntime[all]").results
    assert [(finding.cause, finding.layer) for finding in result.findings] == [("other input", layer)]
