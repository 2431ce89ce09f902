"""All passes on exported models: the operators of the file, and results equal to those of Keras."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export import check_parity, export_onnx
from tests.export.onnx.exported import chain_layers, export_and_compare, file_operators
from tests.export.parity.diagnosis.faults import Surgery


def _build_graph(shape: tuple[int | None, ...], build: Callable[[Any], Any]) -> keras.Model:
    """Returns a model whose layers form a graph."""
    keras.utils.set_random_seed(0)
    x = keras.Input(shape, name="x")
    return keras.Model(x, build(x))


def _operators(model: keras.Model, folder: Path) -> list[str]:
    """Returns the operators of a model's file, after a comparison with Keras at sizes that were not traced."""
    (spec,), rng = model.inputs, np.random.default_rng(0)
    shape = [2, *(size or 6 for size in spec.shape[1:])]
    x = (rng.integers(-7, 7, shape) if spec.dtype == "int32" else rng.uniform(-4, 4, shape)).astype(spec.dtype)
    # Some hundred float32 roundings of numbers up to the largest result.
    atol = 100 * 2**-24 * max(1, float(np.abs(model(x)).max()))
    return file_operators(export_and_compare(model, folder / "model.onnx", x, atol=atol).path)


def _convolution(channels: int = 4, size: int = 3) -> L.Layer:
    return L.Conv2D(channels, size, padding="same")


def _scale_channels(x: Any) -> Any:
    x = _convolution(8)(x)
    scale = L.Dense(2, activation="relu")(L.GlobalAveragePooling2D()(x))
    return _convolution()(x * L.Reshape((1, 1, 8))(L.Dense(8, activation="sigmoid")(scale)))


def _prepared_for_two(x: Any) -> Any:
    x = L.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 5.0, 6.0])(x)
    return _convolution()(x) + L.Dense(4)(x)


def _lines(x: Any) -> Any:
    y = L.Conv1D(4, 1)(x)
    y = L.Add()([y, L.Conv1D(4, 3, padding="causal", activation="elu")(y)])
    return L.Conv1D(2, 3)(L.Concatenate()([L.Conv1D(3, 3, padding="same")(y), y]))


def _steps(*kinds: L.Layer) -> list[L.Layer]:
    return [L.TimeDistributed(kind) for kind in kinds]


IMAGE, ALONE = (12, 10, 3), {"Transpose": 2}
# The shape of an input, a chain of layers or one function that joins layers, and the operators of the file. A
# dictionary has the number of some operators. The first rows are tested in the default run.
ROWS: dict[str, tuple[tuple[int | None, ...], Any, list[str] | dict[str, int]]] = {
    "a dense layer at any rank is one product": ((None, None, 8), [L.Dense(4)], ["MatMul", "Add"]),
    "so is one for each step, with its activation": (
        (None, 8), _steps(L.Dense(4, activation="relu")), ["MatMul", "Add", "Relu"]),
    "an embedding counts negative indices itself": ((None,), [L.Embedding(7, 3)], ["Gather"]),
    "a network with scales of channels is transposed at its ends alone": (IMAGE, _scale_channels, ALONE),
    "a line is an image from the first convolution to the last": (
        (16, 4), _lines, {"Unsqueeze": 1, "Squeeze": 1, "Transpose": 2, "Conv": 4}),
    "Reshapes that undo each other are left out": (
        (8, 8, 3), [_convolution(), L.Reshape((64, 4)), L.Reshape((8, 8, 4)), _convolution()],
        ["Transpose", "Conv", "Conv", "Transpose"]),
    "the shape of a Reshape is a constant": (
        (None, 4), [lambda x: ops.reshape(x, (ops.shape(x)[0], 2, -1))], ["Reshape"]),
    "two bounds are one operator": ((None, 4), [L.Activation("hard_tanh")], ["Clip"]),
    "the weights of a resizing are constants": (IMAGE, [L.Resizing(6, 7, "bicubic")], {"Range": 0, "Where": 0}),
    "a dense layer for each example": ((8,), [L.Dense(4)], ["MatMul", "Add"]),
    "after a transposition": ((8, None), [L.Permute((2, 1)), L.Dense(4)], ["Transpose", "MatMul", "Add"]),
    "Reshapes that do not undo each other stay": (
        (4, 6), [lambda x: ops.reshape(ops.reshape(x, (-1, 6)) @ np.ones((6, 6), "float32"), (-1, 6, 4))],
        ["Reshape", "MatMul", "Reshape"]),
    "slopes": (IMAGE, [
        *(_convolution(), L.PReLU("random_normal"), L.PReLU("random_normal", shared_axes=[1, 2])), _convolution(),
    ], ALONE),
    **{f"a sum that is not a bias, {name}": (
        IMAGE, [L.Conv2D(4, 1, use_bias=False), lambda x, added=added: x + added, L.ReLU(), _convolution(2)], ALONE)
       for name, added in (("a number", 3.0), ("columns", np.arange(10, dtype="float32").reshape(10, 1)))},
    "every second pixel": (IMAGE, [_convolution(), lambda x: x[:, ::2, ::2], _convolution()], ALONE),
    "images of any number of steps": (
        (None, *IMAGE), _steps(L.Conv2D(8, 3), L.ReLU(), L.MaxPooling2D(), L.Conv2D(8, 2)), ALONE),
    "an image is transposed before its preparation": (
        (8, 6, 3), [L.Rescaling(0.5, offset=-1.0), _convolution()], ["Transpose", "Mul", "Add", "Conv", "Transpose"]),
    "but not if others read the prepared image": ((8, 6, 3), _prepared_for_two, ALONE),
    "an axis that no convolution has added stays": (
        (16, 4), [lambda x: ops.squeeze(ops.max(x, 1, keepdims=True), 1), L.ReLU()], ["ReduceMax", "Squeeze", "Relu"]),
    "a single pixel is flattened by a Reshape": (
        (8, 8, 3), [L.Conv2D(4, 8), L.Flatten(), L.Dense(2)], ["Transpose", "Conv", "Reshape", "MatMul"]),
    "an image is transposed before it is flattened": (
        (8, 8, 3), [_convolution(), L.Flatten(), L.Dense(2)], ["Transpose", "Conv", "Transpose", "Reshape", "MatMul"]),
    "an inferred size": ((None, 4), [L.Reshape((-1, 2))], ["Reshape"]),
    "flattened, channels first": ((None, 4), [L.Flatten(data_format="channels_first")], ["Transpose", "Reshape"]),
    "a crop to the nearest pixels": (
        (8, 9, 3), [L.Resizing(6, 4, "nearest", crop_to_aspect_ratio=True)], ["Slice", "Gather", "Gather"]),
    "a resizing by areas": ((8, 9, 3), [L.Resizing(6, 7, "area")], ["Einsum", "Einsum"]),
    "an activation has no Cast": ((None, 4), [L.Activation("tanh")], ["Tanh"]),
}  # fmt: skip


@pytest.mark.quick_rows(9)
@pytest.mark.parametrize(("shape", "kinds", "expected"), ROWS.values(), ids=ROWS)
def test_a_file_holds_no_needless_operator(
    shape: tuple[int | None, ...], kinds: Any, expected: list[str] | dict[str, int], tmp_path: Path
) -> None:
    dtype = "int32" if shape == (None,) else "float32"
    model = _build_graph(shape, kinds) if callable(kinds) else chain_layers(shape, *kinds, dtype=dtype)
    found = _operators(model, tmp_path)
    assert (found if isinstance(expected, list) else {name: found.count(name) for name in expected}) == expected


@pytest.mark.parametrize(("build", "shape"), [
    (lambda: _build_graph((8, 6, 3), _scale_channels), (8, 6, 4)),
    (lambda: chain_layers((5, 6), L.Reshape((-1, 2, 3)), L.ReLU()), (5, 2, 3)),
], ids=["averages of images", "a reshaped tensor"])  # fmt: skip
def test_a_batch_may_be_empty(build: Callable[[], keras.Model], shape: tuple[int, ...], tmp_path: Path) -> None:
    model = build()
    session = ort.InferenceSession(export_onnx(model, tmp_path / "model.onnx").path)
    for batch in (0, 3):
        (y,) = session.run(None, {"x": np.ones((batch, *model.inputs[0].shape[1:]), "float32")})
        assert y.shape == (batch, *shape)


class Centered(L.Layer):
    """Subtracts the mean over the batch from each row."""

    def call(self, x: Any) -> Any:
        return x - ops.mean(x, axis=0, keepdims=True)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


@pytest.mark.parametrize("inner", [lambda: Centered(), lambda: keras.Sequential([L.Dense(8), Centered()])])
def test_a_layer_that_mixes_rows_is_applied_step_by_step(inner: Callable[[], L.Layer], tmp_path: Path) -> None:
    _operators(chain_layers((3, 8), *_steps(inner())), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("build", "damaged"), [
    (lambda: chain_layers((None, 8), *_steps(L.Dense(4, activation="relu"))), -1),
    (lambda: _build_graph((16, 4), _lines), -3),
], ids=["a product of steps", "a line"])  # fmt: skip
def test_a_damaged_kernel_is_named_with_its_layer(
    build: Callable[[], keras.Model], damaged: int, tmp_path: Path
) -> None:
    model = build()
    path = export_onnx(model, tmp_path / "model.onnx").path
    file, layer = Surgery(path), model.layers[damaged]
    file.weight(getattr(layer, "layer", layer).kernel.path, lambda kernel: -1.5 * kernel)
    file.save(path)
    (result,) = check_parity(model, path, runtimes=["onnxruntime[all]"]).results
    assert [each.layer for each in result.layers if each.originates_here] == [layer.name]
