"""Causes in weights: other values in a file, but no change that a converter makes itself."""

from pathlib import Path
from typing import Any

import keras
import onnx
import pytest
from keras import ops

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
        # Without VNNI, sums of two products of 8 bits saturate at 16 bits, so the weights have 7 bits.
        quantize_dynamic(source, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
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


class Gated(keras.layers.Layer):
    """Adds a part of a layer of a hard swish."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.thin = keras.layers.Conv2D(4, 1, name="thin")

    def build(self, shape: Any) -> None:
        self.thin.build(shape)

    def activate(self, x: Any) -> Any:
        return x * ops.relu6(x + 3.0) / 6.0

    def call(self, x: Any) -> Any:
        return x + 0.3 * self.thin(self.activate(x))


class Ungated(Gated):
    def activate(self, x: Any) -> Any:
        return ops.relu6(x + 3.0) / 6.0


@pytest.mark.slow
def test_factor_that_the_converter_moves_into_a_weight_is_not_a_cause(tmp_path: Path) -> None:
    def build(layer: Any) -> keras.Model:
        keras.utils.set_random_seed(0)
        x = y = keras.Input((3, 3, 4), name="x")
        for number in range(2):
            y = layer(name=f"block{number}")(y)
        return keras.Model(x, y)

    artifact = export_litert(build(Ungated), tmp_path / "model.tflite")
    (result,) = check_parity(build(Gated), artifact, runtimes="litert").results
    assert {finding.operation for finding in result.findings} == {"x * ops.relu6(x + 3.0)"}
