"""A trained normalization is part of the convolution before it wherever that gives the same numbers, or an operator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from keras import layers

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.artifacts.onnx_model import all_nodes
from keras_pe.export.graph.trace_function import Weight
from keras_pe.export.onnx.finishing.graph_edits import add_weight
from keras_pe.export.onnx.finishing.normalizations import _KnownNumbers
from keras_pe.export.runtimes.onnx_intermediates import InspectedModel
from tests.export.onnx.exported import chain_layers, randomize_weights
from tests.export.parity.diagnosis.faults import Surgery

IMAGE = (8, 8, 4)


class Doubled(layers.BatchNormalization):
    """A normalization that does something else besides."""

    def call(self, inputs: Any, **options: Any) -> Any:
        return super().call(2.0 * inputs, **options)


def _of(*parts: keras.layers.Layer, shape: tuple[int | None, ...] = IMAGE) -> keras.Model:
    return randomize_weights(chain_layers(shape, *parts), 0.5, 1.5)


def _export_model(model: keras.Model, folder: Path, **options: Any) -> onnx.ModelProto:
    return onnx.load(export_onnx(model, folder / "model.onnx", **options).path)


def _export_checked(model: keras.Model, folder: Path) -> onnx.ModelProto:
    """Returns the file of a model after a check of all weights and outputs."""
    proto = _export_model(model, folder)
    report = check_parity(model, folder / "model.onnx", runtimes="onnxruntime[all]", require_coverage=True)
    assert report.passed, report
    for result in report.results:
        assert result.weights.compared == result.weights.count
    return proto


def _operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in all_nodes(proto.graph) if node.op_type not in ("Transpose", "Pad")]


FOLDED = {
    "valid": (IMAGE, lambda: [layers.Conv2D(3, 3)], ["Conv"]),
    "products": ((4,), lambda: [layers.Dense(3)], ["MatMul", "Add"]),
    "same, by two": (IMAGE, lambda: [layers.Conv2D(3, 3, 2, padding="same", use_bias=False)], ["Conv"]),
    "of each channel": (IMAGE, lambda: [layers.DepthwiseConv2D(3, depth_multiplier=2)], ["Conv"]),
    "in a model": (IMAGE, lambda: [keras.Sequential([layers.Conv2D(3, 3)])], ["Conv"]),
    "of sequences": ((5, 4), lambda: [layers.Dense(3, use_bias=False)], ["MatMul", "Add"]),
    "transposed": (IMAGE, lambda: [layers.Conv2DTranspose(4, 3)], ["ConvTranspose"]),
    "separable": (IMAGE, lambda: [layers.SeparableConv2D(3, 3)], ["Conv", "Conv"]),
    "lines": ((8, 4), lambda: [layers.Conv1D(3, 3)], ["Unsqueeze", "Conv", "Squeeze"]),
    "of a line": (
        (8, 4),
        lambda: [layers.SeparableConv1D(3, 3, use_bias=False)],
        ["Unsqueeze", "Conv", "Conv", "Squeeze"],
    ),
}
NORMALIZATIONS = {
    "plain": layers.BatchNormalization,
    "without a scale": lambda: layers.BatchNormalization(scale=False),
    "without a shift": lambda: layers.BatchNormalization(center=False),
    "in a model": lambda: keras.Sequential([layers.BatchNormalization(), layers.Dropout(0.5)]),
}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("row", "norm"), [*((row, "plain") for row in FOLDED), *(("valid", norm) for norm in [*NORMALIZATIONS][1:])]
)
def test_a_linear_operator_absorbs_the_normalization_after_it(row: str, norm: str, tmp_path: Path) -> None:
    shape, build, operators = FOLDED[row]
    model = _of(*build(), NORMALIZATIONS[norm](), shape=shape)
    proto = _export_checked(model, tmp_path)
    assert _operators(proto) == operators
    numbers = {tensor.name for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
    assert numbers < {weight.path for weight in model.weights}
    assert len(numbers) == 1 + sum(name in ("Conv", "ConvTranspose", "MatMul") for name in operators)  # and one bias


def _with_one_normalization() -> keras.Model:
    x, norm = keras.Input((4,)), layers.BatchNormalization()
    model = keras.Model(x, [norm(layers.Dense(3)(x)), norm(layers.Dense(3, use_bias=False)(x))])
    return randomize_weights(model, 0.5, 1.5)


def _model_with_shared_kernel() -> keras.Model:
    x = keras.Input(IMAGE)
    convolution = layers.Conv2D(4, 1)
    y = layers.BatchNormalization()(convolution(x))
    return randomize_weights(keras.Model(x, layers.BatchNormalization()(convolution(y))), 0.5, 1.5)


def _read_twice() -> keras.Model:
    x = keras.Input(IMAGE)
    y = layers.Conv2D(4, 1)(x)
    return randomize_weights(keras.Model(x, [y, layers.BatchNormalization()(y)]), 0.5, 1.5)


def _bent() -> keras.layers.Layer:
    return layers.Conv2D(4, 3, activation="relu")


NOT_FOLDED = {
    "a shared kernel": _model_with_shared_kernel,
    "an activation between": lambda: _of(layers.Conv2D(4, 1, activation="relu"), layers.BatchNormalization()),
    "another axis": lambda: _of(layers.Conv2D(8, 1), layers.BatchNormalization(axis=1)),
    "without a scale": lambda: _of(_bent(), layers.BatchNormalization(scale=False), layers.MaxPooling2D()),
    "without a shift": lambda: _of(_bent(), layers.BatchNormalization(center=False), layers.Conv2D(4, 1)),
    "first of all": lambda: _of(layers.BatchNormalization(), layers.Conv2D(4, 3, padding="same")),
    "behind another": lambda: _of(_bent(), *(layers.BatchNormalization() for _ in range(2)), layers.Conv2D(4, 1)),
    "of a volume": lambda: _of(
        layers.Conv3D(3, 2, activation="relu"), layers.BatchNormalization(), layers.Conv3D(2, 1), shape=(4, 4, 4, 3)
    ),
    "of channels before steps": lambda: _of(layers.BatchNormalization(axis=1), layers.Flatten(), shape=(6, 4)),
    "of a line": lambda: _of(
        *(layers.Conv1D(4, 3, activation="relu"), layers.BatchNormalization(), layers.Conv1D(4, 3)), shape=(8, 3)
    ),
}


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("build", NOT_FOLDED.values(), ids=NOT_FOLDED.keys())
def test_a_normalization_of_images_that_stays_is_the_operator_for_it(
    build: Callable[[], keras.Model], tmp_path: Path
) -> None:
    proto = _export_checked(build(), tmp_path)
    assert "BatchNormalization" in _operators(proto)
    assert not {"Mul", "Add"} & set(_operators(proto))
    names = {tensor.name for tensor in proto.graph.initializer}
    assert {"moving_mean", "moving_variance"} <= {name.rpartition("/")[2] for name in names}


def _dense(*parts: keras.layers.Layer, shape: tuple[int | None, ...] = (4,)) -> keras.Model:
    return _of(*parts, layers.Dense(3), shape=shape)


PRODUCTS = {
    "a result that is returned, channels last": _read_twice,
    "one that is folded elsewhere as well": _with_one_normalization,
    "first of all": lambda: _dense(layers.BatchNormalization()),
    "behind another": lambda: _dense(layers.BatchNormalization(), layers.BatchNormalization()),
    "behind an activation": lambda: _dense(layers.Dense(5, "relu"), layers.BatchNormalization(scale=False)),
    "of sequences": lambda: _dense(layers.BatchNormalization(center=False), shape=(None, 4)),
    "of another axis": lambda: _dense(layers.BatchNormalization(axis=2), shape=(5, 6, 4)),
    "beside a convolution": lambda: _dense(
        *(layers.Conv2D(3, 3), layers.Flatten(), layers.Dense(5, "relu"), layers.BatchNormalization()), shape=IMAGE
    ),
}


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("build", PRODUCTS.values(), ids=PRODUCTS.keys())
def test_another_normalization_is_a_product_and_a_sum(build: Callable[[], keras.Model], tmp_path: Path) -> None:
    model = build()
    proto = _export_checked(model, tmp_path)
    assert not {"Sqrt", "Reciprocal", "Sub", "Neg"} & set(_operators(proto))
    products = [node for node in proto.graph.node if node.op_type == "Mul"]
    assert products
    for product in products:
        (total,) = (node for node in proto.graph.node if product.output[0] in node.input)
        assert total.op_type == "Add"
        assert {product.input[1], total.input[1]} < {weight.path for weight in model.weights}


def test_a_normalization_with_another_formula_stays_as_it_is(tmp_path: Path) -> None:
    proto = _export_model(_of(layers.Conv2D(4, 1), Doubled()), tmp_path)
    assert {"Mul", "Add"} <= set(_operators(proto))
    assert "keras_pe.folded" not in {each.key for each in proto.metadata_props}


@pytest.mark.slow
def test_a_normalization_in_float16_stays_between_its_casts(tmp_path: Path) -> None:
    model = _of(layers.Conv2D(3, 3, dtype="mixed_float16"), layers.BatchNormalization(dtype="mixed_float16"))
    assert {"BatchNormalization", "Cast"} <= set(_operators(_export_model(model, tmp_path, half_precision=True)))


def _stack() -> keras.Model:
    parts = [layers.Conv2D(6, 3, name="first"), layers.BatchNormalization(name="norm"), layers.ReLU()]
    parts += [layers.DepthwiseConv2D(3, name="second"), layers.BatchNormalization(name="last"), layers.ReLU()]
    return _of(*parts, layers.Flatten(), layers.Dense(6, "relu"), layers.BatchNormalization(name="alone"))


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.parametrize(("weight", "damage", "layer"), [
    ("first/kernel", lambda kernel: kernel * np.linspace(0.5, 2, 6, dtype="float32").reshape(6, 1, 1, 1), "norm"),
    ("first/kernel", np.negative, "first"),
    ("second/kernel", lambda kernel: kernel + (np.arange(kernel.size).reshape(kernel.shape) == 7), "second"),
    ("second/bias", lambda bias: bias + np.float32(1), "second"),
    ("alone/gamma", lambda scale: scale * np.linspace(0.5, 2, 6, dtype="float32"), "alone"),
    ("alone/beta", lambda shift: shift + np.float32(1), "alone"),
])  # fmt: skip
def test_damage_is_known_by_the_name_of_the_weight(
    weight: str, damage: Callable[[Any], Any], layer: str, tmp_path: Path
) -> None:
    model = _stack()
    _export_checked(model, tmp_path)
    file = Surgery(tmp_path / "model.onnx")
    file.weight(weight, damage)
    file.save(tmp_path / "model.onnx")
    (result,) = check_parity(model, tmp_path / "model.onnx", runtimes=["onnxruntime[all]"]).results
    assert not result.passed
    assert [finding.layer for finding in result.findings] == [layer]
    assert weight in result.findings[0].evidence
    assert "folded" in result.findings[0].evidence


def test_stored_weights_are_the_formula_in_float64_rounded_once(tmp_path: Path) -> None:
    model = _stack()
    _export_model(model, tmp_path)
    convolution, norm = model.get_layer("first"), model.get_layer("norm")
    gamma, beta, mean, variance = (np.asarray(weight, np.float64) for weight in norm.weights)
    scale = gamma / np.sqrt(variance + norm.epsilon)
    kernel, bias = (np.asarray(weight, np.float64) for weight in convolution.weights)
    stored = InspectedModel(str(tmp_path / "model.onnx")).weights()
    for name, expected in (("first/kernel", kernel * scale), ("first/bias", (bias - mean) * scale + beta)):
        np.testing.assert_array_max_ulp(stored[name], expected.astype(np.float32), maxulp=1)


def test_values_derived_from_a_weight_are_computed_once() -> None:
    graph = ir.Graph([ir.Value(name="x")], [], nodes=[])
    bias = value = add_weight(graph, Weight("b", "", keras.Variable(np.ones(4, "float32"))))
    nodes = []
    for _ in range(2000):
        nodes.append(ir.node("Mul", [value, value]))
        (value,) = nodes[-1].outputs
    graph.extend(nodes)
    known = _KnownNumbers()
    np.testing.assert_array_equal(known.number(value), np.ones(4))  # a read for each path would be 2**2000
    assert known.are_read_alone(bias, nodes[:1])
    assert known.are_read_alone(bias, [])
    assert known.number(graph.inputs[0]) is None
