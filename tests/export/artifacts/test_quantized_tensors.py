"""Files tell which weights and values are integers with a scale, whichever quantizer wrote them."""

from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from keras_pe.export import export_onnx, read_artifact
from keras_pe.export.artifacts.quantized_tensors import count_quantized, quantization_rows, read_quantization
from keras_pe.export.records import QuantizedTensor

KERNEL = np.linspace(-1.27, 1.27, 32 * 4, dtype=np.float32).reshape(32, 4)
ROWS = np.linspace(-2.0, 3.0, 32, dtype=np.float32)[np.newaxis]


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product and its softmax, in the layer `dense`."""
    nodes = [
        helper.make_node("MatMul", ["x", "dense/kernel"], ["dense/MatMul"], name="dense/MatMul"),
        helper.make_node("Softmax", ["dense/MatMul"], ["y"], name="dense/Softmax"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph(nodes, "graph", [x], [y], [numpy_helper.from_array(KERNEL, "dense/kernel")])
    path = tmp_path_factory.mktemp("dense") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


class Once(CalibrationDataReader):
    """One batch of rows."""

    def __init__(self) -> None:
        self._batches = iter([{"x": ROWS}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._batches, None)


def read_file(path: Path) -> dict[str, QuantizedTensor]:
    return {each.name: each for each in read_quantization(read_artifact(path))}


def test_a_float_file_has_no_quantized_tensor(dense: Path) -> None:
    assert read_file(dense) == {}


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_a_static_file_tells_steps_and_ranges_of_weights_and_values(
    dense: Path, form: QuantFormat, tmp_path: Path
) -> None:
    quantize_static(dense, tmp_path / "int8.onnx", Once(), quant_format=form)
    found = read_file(tmp_path / "int8.onnx")
    kernel = found["dense/kernel"]
    assert (kernel.layer, kernel.role, kernel.dtype, kernel.scales) == ("dense", "weight", "int8", 1)
    assert kernel.zero_points == (0, 0)
    assert kernel.steps == pytest.approx((0.01, 0.01), rel=1e-6)  # a step of float32: 127 of them are 1.27
    x = found["x"]
    assert (x.role, x.dtype, x.scales) == ("value", "int8", 1)
    # The range has 255 steps and holds 0 exactly, so that an end is off by a step at most.
    assert x.limits == pytest.approx((-2.0, 3.0), abs=5 / 255)


def test_a_scale_for_each_channel_is_counted(dense: Path, tmp_path: Path) -> None:
    quantize_static(dense, tmp_path / "int8.onnx", Once(), per_channel=True)
    kernel = read_file(tmp_path / "int8.onnx")["dense/kernel"]
    assert kernel.scales == 4
    largest = np.abs(KERNEL).max(axis=0)
    assert kernel.steps == pytest.approx((largest.min() / 127, largest.max() / 127), rel=1e-6)


def test_a_dynamic_file_computes_the_scales_of_its_values(dense: Path, tmp_path: Path) -> None:
    quantize_dynamic(dense, tmp_path / "int8.onnx", weight_type=QuantType.QUInt8)
    found = read_file(tmp_path / "int8.onnx")
    assert (found["dense/kernel"].dtype, found["dense/kernel"].role) == ("uint8", "weight")
    assert found["x"] == QuantizedTensor("", "x", "value", "uint8", 0, None, None, None)


def test_weights_of_4_bits_have_a_scale_for_each_block(dense: Path, tmp_path: Path) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer  # takes a second

    quantizer = MatMulNBitsQuantizer(onnx.load(dense), block_size=16, is_symmetric=True)
    quantizer.process()
    onnx.save(quantizer.model.model, tmp_path / "int4.onnx")
    (found,) = read_file(tmp_path / "int4.onnx").values()
    assert (found.layer, found.role, found.dtype, found.scales) == ("dense", "weight", "uint4", 8)
    assert found.zero_points == (8, 8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Statistics for quantized inputs")
def test_a_litert_file_tells_steps_and_ranges_of_weights_and_values(tmp_path: Path) -> None:
    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.Input((32,), batch_size=1), keras.layers.Dense(4, use_bias=False)])
    model.set_weights([KERNEL])
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: iter([[ROWS]])
    (tmp_path / "int8.tflite").write_bytes(converter.convert())
    found = read_quantization(read_artifact(tmp_path / "int8.tflite"))
    kernel = next(each for each in found if each.role == "weight")
    assert (kernel.dtype, kernel.scales, kernel.zero_points) == ("int8", 4, (0, 0))
    assert kernel.steps == pytest.approx((np.abs(KERNEL).max(axis=0).min() / 127, 0.01), rel=1e-6)
    x = next(each for each in found if each.role == "value")
    assert x.limits == pytest.approx((-2.0, 3.0), abs=5 / 255)  # off by a step at most, so that 0 is exact


def test_tensors_of_one_scale_in_a_layer_share_a_row() -> None:
    one = QuantizedTensor("a", "a/MatMul", "value", "int8", 1, (0.5, 0.5), (-64, 63.5), (0, 0))
    other = QuantizedTensor("a", "a/Reshape", "value", "int8", 1, (0.5, 0.5), (-64, 63.5), (0, 0))
    dynamic = QuantizedTensor("b", "b/MatMul", "value", "uint8", 0, None, None, None)
    weight = QuantizedTensor("b", "b/kernel", "weight", "int4", 2, (0.25, 0.5), (-4, 3.5), (0, 0))
    assert quantization_rows([weight, one, other, dynamic]) == (
        ("b/kernel", "weight", "int4", "2", "0.25 to 0.5", "0", "-4 to 3.5"),
        ("a/MatMul and 1 more", "value", "int8", "1", "0.5", "0", "-64 to 63.5"),
        ("b/MatMul", "value", "uint8", "", "each call", "each call", "each call"),
    )
    assert count_quantized([weight, one, other, dynamic]) == "1 weight (1 int4) and 3 values (2 int8, 1 uint8)"


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_weights_that_keras_quantized_are_listed_with_their_steps_and_ranges(mode: str, tmp_path: Path) -> None:
    inputs, layer = keras.Input((32,)), keras.layers.Dense(4, use_bias=False, name="dense")
    model = keras.Model(inputs, layer(inputs))
    layer.kernel.assign(KERNEL)
    layer.quantize(mode)
    export_onnx(model, tmp_path / "small.onnx")
    kernel = read_file(tmp_path / "small.onnx")["dense/kernel"]
    assert (kernel.layer, kernel.role, kernel.dtype[-4:], kernel.scales) == ("dense", "weight", mode, 4)
    spans = np.abs(KERNEL).max(axis=0) / 127 if mode == "int8" else np.ptp(KERNEL, axis=0) / 15
    step = float(spans.max())
    assert kernel.steps == pytest.approx((float(spans.min()), step), rel=1e-3)
    assert kernel.limits == pytest.approx((-1.27, 1.27), abs=2 * step)
