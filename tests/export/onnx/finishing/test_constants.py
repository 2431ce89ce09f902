"""A file stores values that are known at export, and omits operators without an effect."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from keras import ops

from keras_pe.export import export_onnx
from keras_pe.export.artifacts.onnx_model import all_nodes

L = keras.layers


def _operators(layer: Any, shape: tuple[int | None, ...], given: tuple[int, ...], folder: Path, **options: Any) -> Any:
    """Returns the operators of a file that has returned what Keras does, but for a few roundings of small numbers."""
    keras.utils.set_random_seed(0)
    x = keras.Input(shape, name="x")
    model = keras.Model(x, layer(x))
    path = export_onnx(model, folder / "model.onnx", **options).path
    values = np.random.default_rng(0).uniform(-4, 4, given).astype("float32")
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for actual, truth in zip(session.run(None, {"x": values}), keras.tree.flatten(model(values)), strict=True):
        np.testing.assert_allclose(actual, truth, rtol=0, atol=20 * np.finfo("float32").eps)
    return [node.op_type for node in all_nodes(onnx.load(path).graph)]


def test_the_weights_of_a_resizing_are_constants_where_the_sizes_are_known(tmp_path: Path) -> None:
    images = (8, 9, 3), (2, 8, 9, 3)
    left_of = {"nearest": {"Gather"}, "bicubic": {"Gather", "Mul", "ReduceSum"}, "area": {"Einsum"}}
    for kind, left in left_of.items():
        layer = L.Resizing(6, 7, interpolation=kind)
        assert set(_operators(layer, *images, tmp_path)) == left
    cropped = _operators(L.Resizing(6, 4, "nearest", crop_to_aspect_ratio=True), *images, tmp_path)
    assert cropped == ["Slice", "Gather", "Gather"]


RESHAPED: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "inferred": (L.Reshape((-1, 2)), ["Reshape"]),
    "flattened, channels first": (L.Flatten(data_format="channels_first"), ["Transpose", "Reshape"]),
    "batch and an inferred size": (lambda x: ops.reshape(x, (ops.shape(x)[0], 2, -1)), ["Reshape"]),
}


@pytest.mark.parametrize(("function", "operators"), RESHAPED.values(), ids=RESHAPED.keys())
def test_a_shape_of_the_sizes_before_is_a_constant(
    function: Callable[[Any], Any], operators: list[str], tmp_path: Path
) -> None:
    layer = function if isinstance(function, L.Layer) else L.Lambda(function)
    assert _operators(layer, (None, 4), (3, 5, 4), tmp_path) == operators


def test_a_number_is_not_spread_before_it_is_read(tmp_path: Path) -> None:
    positive = L.Lambda(lambda x: ops.where(x > 1, x, ops.zeros_like(x)))
    assert _operators(positive, (None, 4), (3, 5, 4), tmp_path) == ["Greater", "Where"]


def test_operators_without_effect_are_left_out(tmp_path: Path) -> None:
    assert _operators(L.Activation("silu"), (None, 4), (3, 5, 4), tmp_path) == ["Sigmoid", "Mul"]
    assert "Cast" not in _operators(L.Activation("tanh"), (None, 4), (3, 5, 4), tmp_path)
    counted = L.Lambda(lambda x: ops.cast(ops.cast(ops.cast(x > 0, "int32"), "int64"), "float32"))
    assert _operators(counted, (None, 4), (3, 5, 4), tmp_path) == ["Greater", "Cast"]


def test_an_axis_reversed_twice_is_not_reversed(tmp_path: Path) -> None:
    both = L.Lambda(
        lambda x: ops.flip(ops.flip(x, 1) * 2, 1) + ops.flip(ops.flip(x, (1, 2)), (2, 1)) + x[:, ::-1][:, ::-1]
    )
    assert _operators(both, (None, 4), (3, 5, 4), tmp_path) == ["Slice", "Mul", "Slice", "Add", "Add"]
    others = L.Lambda(lambda x: ops.flip(ops.flip(x, 1), 2)[:, ::-2][:, ::-2])
    assert _operators(others, (None, 4), (3, 5, 4), tmp_path) == ["Slice"] * 4


def test_a_cast_that_loses_something_stays(tmp_path: Path) -> None:
    whole = L.Lambda(lambda x: ops.cast(ops.cast(x, "int32"), "float32"))
    assert _operators(whole, (None, 4), (3, 5, 4), tmp_path) == ["Cast", "Cast"]


def test_two_bounds_are_one_operator(tmp_path: Path) -> None:
    assert _operators(L.Activation("hard_tanh"), (None, 4), (3, 5, 4), tmp_path) == ["Clip"]
