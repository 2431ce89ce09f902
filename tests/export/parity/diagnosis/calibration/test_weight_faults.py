"""Weights whose one scale is too coarse for some channels are found, and others are not."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export import Cause
from keras_pe.export.parity.diagnosis.calibration.weight_faults import find_weight_faults
from keras_pe.export.results import Array
from tests.export.parity.diagnosis.calibration.integer_graphs import IntegerGraph

RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(8, 6)).astype(np.float32)
UNLIKE = KERNEL * np.array([1, 1, 0.01, 1, 1, 1], np.float32)
BIAS = np.array([0.01, -0.02, 0.015, 5.0, 0.01, 0.02], np.float32)
ALL_CHANNELS = [
    (UNLIKE, "MatMul", {}, "int8", False, Cause.CHANNELS_OF_ONE_SCALE),
    (UNLIKE.T.reshape(6, 8, 1), "Conv", {}, "int8", False, Cause.CHANNELS_OF_ONE_SCALE),
    (UNLIKE.T, "Gemm", {"transB": 1}, "uint8", False, Cause.CHANNELS_OF_ONE_SCALE),
    (UNLIKE, "MatMul", {}, "int8", True, None),
    (KERNEL, "MatMul", {}, "int8", False, None),
    (UNLIKE.T, "Gather", {}, "int8", False, None),
    (BIAS, "Add", {}, "int8", False, Cause.COARSE_BIAS),
    (BIAS[BIAS < 1], "Add", {}, "int8", False, None),
    (np.full(6, 3e9), "Add", {}, "int32", False, Cause.COARSE_BIAS),
    (np.zeros(6), "Add", {}, "int32", False, None),
]


@pytest.mark.parametrize(("weight", "operator", "attributes", "dtype", "by_channel", "cause"), ALL_CHANNELS)
def test_a_scale_too_coarse_for_a_part_of_a_weight_is_found(
    tmp_path: Path, weight: Array, operator: str, attributes: Any, dtype: str, by_channel: bool, cause: Cause | None
) -> None:
    largest = np.abs(weight).max(axis=0) if by_channel else np.abs(weight).max()
    scale = np.asarray(np.where(largest > 0, largest, 1) / 127 if dtype != "int32" else 1.0, np.float32)
    zero = np.full(scale.shape, 128 if dtype == "uint8" else 0, dtype)
    end = np.iinfo(dtype)
    integers = np.clip(np.rint(weight / scale) + zero.astype(np.int64), end.min, end.max).astype(dtype)
    names = ["layer/kernel_quantized", "scale", "zero"]
    given = ["layer/kernel", "x"] if operator == "Gather" else ["x", "layer/kernel"]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["layer/kernel"], axis=weight.ndim - 1),
        helper.make_node(operator, given, ["y"], **attributes),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    constants = map(numpy_helper.from_array, (integers, scale, zero), names)
    onnx.save(helper.make_model(helper.make_graph(nodes, "graph", values[:1], values[1:], constants)), tmp_path / "m")
    found = [(each.cause, each.layer) for each in find_weight_faults(tmp_path / "m")]
    assert found == ([] if cause is None else [(cause, "layer")])


@pytest.mark.parametrize(
    ("weight", "operator", "dtype", "by_channel", "cause"),
    [
        (UNLIKE.T, "MatMul", "int8", False, Cause.CHANNELS_OF_ONE_SCALE),
        (UNLIKE.T.reshape(6, 1, 1, 8), "Conv", "int8", False, Cause.CHANNELS_OF_ONE_SCALE),
        (UNLIKE.T, "MatMul", "int8", True, None),
        (KERNEL.T, "MatMul", "int8", False, None),
        (UNLIKE.T, "Gather", "int8", False, None),
        (BIAS, "Add", "int8", False, Cause.COARSE_BIAS),
        (BIAS[BIAS < 1], "Add", "int8", False, None),
        (np.full(6, 3e9), "Add", "int32", False, Cause.COARSE_BIAS),
        (np.zeros(6), "Add", "int32", False, None),
    ],
)
def test_a_scale_too_coarse_for_a_part_of_a_weight_of_a_litert_file_is_found(
    tmp_path: Path, weight: Array, operator: str, dtype: str, by_channel: bool, cause: Cause | None
) -> None:
    others = tuple(range(1, weight.ndim))
    largest = np.abs(weight).max(axis=others, keepdims=True) if by_channel else np.abs(weight).max()
    scale = np.asarray(np.where(largest > 0, largest, 1) / 127 if dtype != "int32" else 1.0, np.float32)
    end = np.iinfo(dtype)
    graph = IntegerGraph(8)
    integers = np.clip(np.rint(weight / scale), end.min, end.max).astype(dtype)
    zero = np.zeros(scale.size, dtype)
    kernel = graph.add("DequantizeLinear", "layer/kernel", integers, scale.ravel(), zero)
    given = [kernel, "x"] if operator == "Gather" else ["x", kernel]
    path = graph.save_litert(tmp_path / "model.tflite", graph.add(operator, "layer", *given))
    found = [(each.cause, each.layer) for each in find_weight_faults(path, ["layer"])]
    assert found == ([] if cause is None else [(cause, "layer")])


@pytest.mark.parametrize("suffix", [".onnx", ".tflite"])
@pytest.mark.parametrize(("dtype", "causes"), [("int8", [Cause.COARSE_BIAS]), ("int32", [])])
def test_a_bias_with_a_scale_of_its_own_needs_more_than_a_few_steps(
    tmp_path: Path, dtype: str, causes: list[Cause], suffix: str
) -> None:
    graph = IntegerGraph(6)
    steps = np.array([3, -1, 2, 0, -3, 1], dtype)
    bias = graph.add("DequantizeLinear", "layer/bias", steps, np.array([0.2], np.float32), np.zeros(1, dtype))
    save = graph.save if suffix == ".onnx" else graph.save_litert
    path = save(tmp_path / f"model{suffix}", graph.add("Add", "layer", "x", bias))
    assert [each.cause for each in find_weight_faults(path, ["layer"])] == causes
