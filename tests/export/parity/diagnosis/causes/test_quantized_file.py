"""Files of ONNX Runtime's quantizers: sound ones have no fault of calibration, and a range that ends early is named."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from keras import layers as L  # noqa: N812
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import keras_pe
from keras_pe.export import Cause, check_parity, export_litert, export_onnx
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.quantization.feeds import write_feed
from keras_pe.export.quantization.layer_nodes import read_nodes
from keras_pe.export.quantization.litert_quantizers import LITERT_QUANTIZERS
from keras_pe.export.results import Array
from tests.export.runtimes.external.present import need_package
from tests.test_docs import script

quantized_files = script("quantized_files")
RNG = np.random.default_rng(0)


class Rows(CalibrationDataReader):
    def __init__(self, batches: list[Array]) -> None:
        self._rest = iter([{"x": each} for each in batches])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._rest, None)


def dense(x: Any) -> Any:
    return L.Dense(16, "gelu", name="b")(L.Dense(32, "relu", name="a")(x))


def folded_normalization(x: Any) -> Any:
    return L.ReLU(name="relu")(L.BatchNormalization(name="norm")(L.Dense(16, name="a")(x)))


def cube(x: Any) -> Any:  # a tensor of three equal sizes
    return L.Flatten(name="flat")(L.LayerNormalization(name="norm")(L.Conv2D(8, 1, name="conv")(x)))


def concatenation(x: Any) -> Any:
    return L.Concatenate(name="join")([L.Dense(8, "relu", name="a")(x), L.Dense(8, "tanh", name="b")(x)])


def image(x: Any) -> Any:
    x = L.BatchNormalization(name="norm")(L.Conv2D(8, 3, padding="same", name="conv")(x))
    return L.GlobalAveragePooling2D(name="mean")(L.ReLU(name="relu")(x))


def attention(x: Any) -> Any:
    x = keras_pe.SinusoidalPositionEncoding(name="positions")(x)
    return L.LayerNormalization(name="norm")(x + L.MultiHeadAttention(2, 8, name="attention")(x, x))


def positions(x: Any) -> Any:  # the slowest channels of a short table have less than four steps
    return L.Flatten(name="flat")(keras_pe.SinusoidalPositionEncoding(name="positions")(x))


def quantize_model(
    layers: Any, shape: tuple[int | None, ...], path: Path, form: Any, dtype: Any, rows: list[Array]
) -> Any:
    keras.utils.set_random_seed(0)
    x = keras.Input(shape, name="x")
    model = keras.Model(x, L.Dense(4, "softmax", name="scores")(layers(x)))
    for weight in model.non_trainable_weights:  # statistics of a trained normalization, which an export may fold
        weight.assign(RNG.uniform(10, 20, weight.shape) if "variance" in weight.path else RNG.normal(size=weight.shape))
    source = export_onnx(model, path.with_name("float.onnx")).path
    quantize_static(source, path, Rows(rows), quant_format=form, activation_type=dtype)
    return model


@pytest.mark.slow
@pytest.mark.slow_rows(1)
@pytest.mark.parametrize("dtype", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        (dense, (16,)),
        (concatenation, (16,)),
        (image, (8, 8, 2)),
        (attention, (None, 16)),
        (positions, (16, 12)),
        (folded_normalization, (16,)),
        (cube, (8, 8, 2)),
    ],
)
def test_a_sound_file_is_quantized_and_nothing_else(
    tmp_path: Path, layers: Any, shape: tuple[int | None, ...], form: Any, dtype: Any
) -> None:
    rows = RNG.normal(size=(64, *(size or 10 for size in shape))).astype(np.float32)
    model = quantize_model(layers, shape, tmp_path / "int8.onnx", form, dtype, [rows])
    report = check_parity(model, tmp_path / "int8.onnx", runtimes="onnxruntime[all]", inputs={"x": rows[:8]})
    assert report.findings[0].cause is Cause.QUANTIZED_INT8
    assert all(each.cause.is_quantized for each in report.findings), str(report)


@pytest.mark.slow
@pytest.mark.slow_rows(2)
@pytest.mark.parametrize(
    ("layers", "shape"), [(dense, (16,)), (attention, (None, 16)), (image, (8, 8, 2)), (concatenation, (16,))]
)
def test_a_sound_litert_file_is_quantized_and_a_range_that_ends_early_is_named(
    tmp_path: Path, layers: Any, shape: tuple[int | None, ...]
) -> None:
    need_package("ai_edge_quantizer")
    keras.utils.set_random_seed(0)
    x = keras.Input(shape, name="x")
    model = keras.Model(x, L.Dense(4, "softmax", name="scores")(layers(x)))
    source = export_litert(model, tmp_path / "float.tflite").path
    rows = RNG.normal(size=(64, *(size or 10 for size in shape))).astype(np.float32)
    quantizer = LITERT_QUANTIZERS["static"]
    bodies = [node.name for node in read_nodes(source, Format.LITERT, ()) if node.is_in_body]
    assert quantizer.leave_in_float is not None
    options = quantizer.leave_in_float(quantizer.options, bodies)
    for size, name in ((1.0, "sound"), (0.1, "cut")):
        ranges = str(tmp_path / f"{name}.json")
        write_feed(tmp_path / f"{name}.npz", {"x": rows * np.float32(size)})
        assert quantizer.calibrate is not None
        assert quantizer.write is not None
        quantizer.calibrate(str(source), ranges, [str(tmp_path / f"{name}.npz")])
        quantizer.write(str(source), str(tmp_path / f"{name}.tflite"), options, ranges)
    found = [
        check_parity(model, tmp_path / f"{name}.tflite", runtimes="litert", inputs={"x": rows[:8]}).findings
        for name in ("sound", "cut")
    ]
    assert found[0][0].cause is Cause.QUANTIZED_INT8
    assert all(each.cause.is_quantized for each in found[0]), found[0]
    assert found[1][0].cause is Cause.OTHER_CALIBRATION, found[1]
    assert found[1][0].layer == "x"


@pytest.mark.slow
def test_int8_accepts_a_length_that_calibration_has_seen_and_names_the_cut_range_of_another(tmp_path: Path) -> None:
    def attention_mean(x: Any) -> Any:
        return L.GlobalAveragePooling1D(name="mean")(attention(x))

    rows = [3 * RNG.normal(size=(8, length, 16)).astype(np.float32) for length in (16, 24, 24)]
    short = rows[0][:, :1]
    file, options = tmp_path / "int8.onnx", {"runtimes": "onnxruntime[all]", "inputs": {"x": short}}
    shape, form, dtype = (None, 16), QuantFormat.QDQ, QuantType.QInt8
    model = quantize_model(attention_mean, shape, file, form, dtype, rows)
    for precision in (None, "int8"):
        report = check_parity(model, file, precision=precision, **options)
        assert not report.passed
        cut = {each.layer: each.parameters[0].artifact for each in report.findings if each.cause is Cause.CLIPPED_RANGE}
        assert cut
        assert all(0 < share < 1 for share in cut.values())
    model = quantize_model(attention_mean, shape, file, form, dtype, [short, *rows])
    assert check_parity(model, file, precision="int8", **options).passed


def round_result(path: Path, layer: str, scale: float) -> None:
    """Rounds the result of a layer's last node to int8."""
    model = onnx.load(path)
    number = max(number for number, node in enumerate(model.graph.node) if node.name.startswith(f"{layer}/"))
    (name,) = model.graph.node[number].output
    model.graph.node[number].output[:] = [f"{name}/wide"]
    names = [f"{name}/wide", "scale", "zero"], [f"{name}/int8"], [f"{name}/int8", "scale", "zero"], [name]
    model.graph.node.insert(number + 1, onnx.helper.make_node("QuantizeLinear", *names[:2]))
    model.graph.node.insert(number + 2, onnx.helper.make_node("DequantizeLinear", *names[2:]))
    constants = {"scale": np.float32(scale), "zero": np.int8(0)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    onnx.save(model, path)


@pytest.mark.slow
def test_a_range_that_explains_the_whole_difference_is_named_alone(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((16,), name="x")
    model = keras.Model(x, L.Dense(4, name="scores")(L.Dense(8, name="hidden")(x)))
    path = export_onnx(model, tmp_path / "model.onnx").path
    round_result(path, "hidden", 0.5 / 127)
    report = check_parity(model, path, runtimes="onnxruntime[all]")
    assert [(each.cause, each.layer) for each in report.findings] == [(Cause.CLIPPED_RANGE, "hidden")]


@pytest.mark.slow
def test_a_file_whose_weights_alone_are_coarse_is_quantized(tmp_path: Path) -> None:
    def make_coarse(graph: onnx.GraphProto) -> None:
        quantized_files.round_tensor(graph, "x", -5, 5)
        for tensor in graph.initializer:
            if tensor.name == "mix/kernel":
                kernel = onnx.numpy_helper.to_array(tensor)
                step = np.abs(kernel).max(0) / 20
                coarse = (np.rint(kernel / step) * step).astype("float32")
                tensor.CopyFrom(onnx.numpy_helper.from_array(coarse, tensor.name))
        quantized_files.round_weight(graph, "mix/kernel")

    build = quantized_files.functional(lambda x, _: L.Dense(16, "tanh", name="mix")(x), 8)
    path = tmp_path / "model.onnx"
    report = check_parity(quantized_files.edit_graph(make_coarse, build)(path), path, runtimes="onnxruntime[all]")
    assert [each.cause for each in report.findings] == ["quantized (int8)"]
