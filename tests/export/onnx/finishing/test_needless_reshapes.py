"""A Dense layer is a MatMul and an Add, whatever the rank; Reshapes that change nothing are left out, others stay."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.artifacts.artifact import LAYERS_KEY

L = keras.layers


def _export(model: keras.Model, values: Any, path: Path) -> list[str]:
    """Checks the numbers at a size that was not traced and returns the operators."""
    artifact = export_onnx(model, path / "m.onnx")
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    # Up to 16 products of values near 1, each rounded to float32.
    np.testing.assert_allclose(session.run(None, {"values": values})[0], model(values), atol=2e-6, rtol=0)
    return [node.op_type for node in onnx.load(artifact.path).graph.node]


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("shape", [(8,), (5, 8), (None, 8), (None, None, 8), (3, None, 8)])
def test_a_dense_layer_is_one_product_at_any_rank(tmp_path: Path, shape: tuple[int | None, ...]) -> None:
    model = keras.Sequential([keras.Input(shape, name="values"), L.Dense(4)])
    values = np.random.default_rng(0).normal(size=(2, *(size or 6 for size in shape))).astype("float32")
    assert _export(model, values, tmp_path) == ["MatMul", "Add"]


def _step_model(shape: tuple[int | None, ...]) -> keras.Model:
    return keras.Sequential([keras.Input(shape, name="values"), L.TimeDistributed(L.Dense(4, activation="relu"))])


@pytest.mark.parametrize("shape", [(None, 8), (3, 8)])
def test_so_is_one_for_each_step_with_its_activation(tmp_path: Path, shape: tuple[int | None, ...]) -> None:
    values = np.random.default_rng(0).normal(size=(2, shape[0] or 6, 8)).astype("float32")
    assert _export(_step_model(shape), values, tmp_path) == ["MatMul", "Add", "Relu"]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(None, 8), (3, 8)])
def test_a_damaged_kernel_for_each_step_is_named_with_its_layer(tmp_path: Path, shape: tuple[int | None, ...]) -> None:
    model = _step_model(shape)
    export_onnx(model, tmp_path / "m.onnx")
    assert check_parity(model, tmp_path / "m.onnx", runtimes="onnxruntime[all]", require_coverage=True).passed
    proto = onnx.load(tmp_path / "m.onnx")
    (kernel,) = (tensor for tensor in proto.graph.initializer if tensor.name.endswith("/kernel"))
    kernel.CopyFrom(onnx.numpy_helper.from_array(1.5 * onnx.numpy_helper.to_array(kernel), kernel.name))
    onnx.save(proto, tmp_path / "m.onnx")
    (result,) = check_parity(model, tmp_path / "m.onnx", runtimes=["onnxruntime[all]"]).results
    (finding,) = result.findings
    assert kernel.name.endswith(f"{finding.layer}/kernel")


class Centered(L.Layer):
    """Takes the mean over the batch off each row."""

    def call(self, x: Any) -> Any:
        return x - keras.ops.mean(x, axis=0, keepdims=True)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def test_a_layer_that_mixes_rows_is_applied_step_by_step(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    for inner in (Centered(), keras.Sequential([L.Dense(8), Centered()])):
        model = keras.Sequential([keras.Input((3, 8), name="values"), L.TimeDistributed(inner)])
        _export(model, values, tmp_path)


def test_a_dense_layer_after_a_transposition_is_too(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((8, None), name="values"), L.Permute((2, 1)), L.Dense(4)])
    values = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")
    assert _export(model, values, tmp_path) == ["Transpose", "MatMul", "Add"]


def test_reshapes_that_do_not_undo_each_other_stay(tmp_path: Path) -> None:
    inputs = keras.Input((4, 6), name="values")
    product = keras.ops.matmul(keras.ops.reshape(inputs, (-1, 6)), np.ones((6, 6), "float32"))
    model = keras.Model(inputs, keras.ops.reshape(product, (-1, 6, 4)))
    values = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    assert _export(model, values, tmp_path) == ["Reshape", "MatMul", "Reshape"]


def test_leading_sizes_that_change_places_stay(tmp_path: Path) -> None:
    class Regrouped(L.Layer):
        def call(self, inputs: Any) -> Any:
            batch, length, _ = keras.ops.shape(inputs)
            product = keras.ops.matmul(keras.ops.reshape(inputs, (-1, 6)), np.ones((6, 6), "float32"))
            return keras.ops.reshape(product, (length, batch, 6))

    model = keras.Sequential([keras.Input((None, 6), name="values"), Regrouped()])
    values = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    assert "Reshape" in _export(model, values, tmp_path)


def test_an_average_over_an_image_keeps_the_axes_that_are_put_back(tmp_path: Path) -> None:
    inputs = keras.Input((6, 6, 4), name="values")
    x = L.Conv2D(4, 3, padding="same")(inputs)
    squeezed = L.Reshape((1, 1, 4))(L.GlobalAveragePooling2D()(x))
    excited = L.Conv2D(4, 1, activation="sigmoid")(L.Conv2D(2, 1, activation="relu")(squeezed))
    model = keras.Model(inputs, L.GlobalMaxPooling2D()(x * excited))
    values = np.random.default_rng(0).normal(size=(2, 6, 6, 4)).astype("float32")
    operators = _export(model, values, tmp_path)
    assert operators.count("Conv") == 3
    assert "Reshape" not in operators


def test_a_needless_reshape_is_left_out_and_its_layer_is_still_known(tmp_path: Path) -> None:
    inputs = keras.Input((4, 6), name="values")
    same = L.Reshape((4, 6), name="same")(L.Dense(6, activation="relu", name="dense")(inputs))
    model = keras.Model(inputs, L.Dense(2)(same))
    values = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    assert _export(model, values, tmp_path) == ["MatMul", "Add", "Relu", "MatMul", "Add"]
    texts = {each.key: each.value for each in onnx.load(tmp_path / "m.onnx").metadata_props}
    layers = json.loads(texts[LAYERS_KEY])
    assert layers["same"] == layers["dense"]


@pytest.mark.parametrize(("axis", "is_reshaped"), [(-2, False), (-1, True)])
def test_halves_that_are_stacked_and_joined_stand_side_by_side(tmp_path: Path, axis: int, is_reshaped: bool) -> None:
    class Turned(L.Layer):
        def call(self, inputs: Any) -> Any:
            first, second = keras.ops.split(inputs, 2, axis=-1)
            return keras.ops.reshape(keras.ops.stack([-second, first], axis=axis), keras.ops.shape(inputs))

    model = keras.Sequential([keras.Input((None, 6), name="values"), Turned()])
    values = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    found = _export(model, values, tmp_path)
    assert {"Split", "Neg", "Concat"} <= set(found)
    assert ("Reshape" in found) == ("Unsqueeze" in found) == is_reshaped
