"""Causes of the layers at fault, each said of its own layer."""

from pathlib import Path
from typing import Any

import keras
import onnx
import pytest

from keras_pe.export import check_parity, export_litert, export_onnx


def _model(factor: float = 1.0, activation: str = "tanh") -> keras.Model:
    keras.utils.set_random_seed(3)
    x = keras.Input((None, 6), name="x")
    mine = keras.layers.Dense(6, name="my_dense")
    y = keras.layers.Dense(4, activation=activation, name="dense")(mine(x))
    mine.kernel.assign(mine.kernel * factor)
    return keras.Model(x, y)


@pytest.mark.slow
def test_a_layer_whose_name_ends_another_is_not_explained_by_the_weights_of_that(tmp_path):
    artifact = export_onnx(_model(1.5, "sigmoid"), tmp_path / "model.onnx")
    (result,) = check_parity(_model(), artifact, runtimes="onnxruntime[all]").results
    found = {finding.layer: finding.cause for finding in result.findings}
    assert set(found) == {"my_dense", "dense"}
    assert found["dense"] == "other activation"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # onnxruntime's own tool, which warns of what it will change
@pytest.mark.parametrize("form", ["channels", "blocks"])
def test_the_weights_of_a_file_that_onnxruntime_quantized_are_called_quantized(form, tmp_path):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    source, path = export_onnx(_model(), tmp_path / "model.onnx").path, tmp_path / "int8.onnx"
    if form == "channels":
        quantize_dynamic(source, path, weight_type=QuantType.QInt8, per_channel=True)
    else:
        quantizer = MatMulNBitsQuantizer(onnx.load(source), bits=8, block_size=16, is_symmetric=True)
        quantizer.process()
        onnx.save(quantizer.model.model, path)
    (result,) = check_parity(_model(), path, runtimes="onnxruntime[all]").results
    of_tensors = [None] if form == "channels" else []  # this file also rounds what it computes
    assert {each.cause for each in result.findings} == {"quantized (int8)"}
    assert [each.layer for each in result.findings] == [*of_tensors, "my_dense", "dense"]
    assert all("scale" in each.evidence for each in result.findings if each.layer)


@pytest.mark.slow
def test_a_weight_of_a_litert_file_is_looked_at_though_its_layers_cannot_be_followed(tmp_path):
    artifact = export_litert(_model(-1.0), tmp_path / "model.tflite")
    (result,) = check_parity(_model(), artifact, runtimes="litert").results
    assert not result.passed
    assert [(finding.layer, finding.cause) for finding in result.findings] == [("my_dense", "flipped sign")]


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
