"""Convolutions agree, transposed ones whatever the kernel leaves over or out."""

from pathlib import Path

import keras
import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import Artifact
from tests.export.onnx.exported import export_and_compare, file_operators, randomize_weights

layers = keras.layers
# Kernel, stride and padding: what a stride leaves over, or out, is another pixel each time.
KERNELS = [
    (kernel, stride, padding)
    for kernel, stride in ((3, 2), (2, 3), (1, 1), (2, 2), (4, 2), (5, 3), (1, 2), (5, 1))
    for padding in ("same", "valid")
]
# A pixel sums up to 125 products of values below 4 and weights below 1.
TOLERANCE = 125 * 4 * float(np.finfo("float32").eps)


def make_model(
    transposed: list[keras.layers.Layer], shape: tuple[int | None, ...], first: keras.layers.Layer | None = None
) -> keras.Model:
    """Returns a model with an output for each layer, after a first one if there is one."""
    x = keras.Input((*shape, 2), name="x")
    hidden = first(x) if first else x
    return randomize_weights(keras.Model(x, [layer(hidden) for layer in transposed]), -0.5, 0.5)


def assert_agrees(model: keras.Model, path: Path, shapes: list[tuple[int, ...]], opset: int = 18) -> Artifact:
    cases = [np.random.default_rng(0).uniform(-4, 4, size=(*shape, 2)).astype("float32") for shape in shapes]
    return export_and_compare(model, path / "model.onnx", *cases, atol=TOLERANCE, opset_version=opset)


SIZELESS = {
    **{f"{kernel} by {stride}, {padding}": (2, kernel, stride, padding, {}) for kernel, stride, padding in KERNELS},
    **{f"{rank} axes": (rank, 3, 2, "same", {}) for rank in (1, 3)},
    **{f"{rank} axes, valid": (rank, 2, 3, "valid", {}) for rank in (1, 3)},
    "with gaps": (2, 3, 1, "same", {"dilation_rate": 2}),
    "with an output padding": (2, 3, 2, "same", {"output_padding": 0}),
    "with another": (2, 3, 3, "valid", {"output_padding": 1}),
    "of axes that differ": (2, (1, 4), (3, 2), "same", {"use_bias": False}),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_fixed", [False, True])
def test_any_size_is_one_operator(is_fixed: bool, tmp_path: Path) -> None:
    kinds = (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
    for rank in (2,) if is_fixed else (1, 2, 3):
        every = [
            kinds[rank - 1](3, kernel, strides=stride, padding=padding, **options)
            for axes, kernel, stride, padding, options in SIZELESS.values()
            if axes == rank
        ]
        shapes = [(2, *(7, 8, 3)[:rank]), (3, *(5, 4, 6)[:rank]), (1, *(1, 2, 1)[:rank])]
        model = make_model(every, shapes[0][1:] if is_fixed else (None,) * rank)
        operators = file_operators(assert_agrees(model, tmp_path, shapes[: 1 if is_fixed else 3]).path)
        beside = {"Add", "Reshape"} if is_fixed else {"Unsqueeze", "Squeeze"}
        assert set(operators) <= {"ConvTranspose", "Transpose", *beside}
        assert operators.count("ConvTranspose") == len(every)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(7, 8), (None, None)])
def test_the_layer_before_a_convolution_does_not_matter(shape: tuple[int | None, ...], tmp_path: Path) -> None:
    layer = layers.Conv2DTranspose(3, 3, strides=2, padding="same")
    assert_agrees(make_model([layer], shape, layers.Dense(2)), tmp_path, [(2, 7, 8)])


@pytest.mark.quick_rows(1)
# In the default run each number of axes once.
@pytest.mark.parametrize(
    ("rank", "opset"),
    [(1, 15), (2, 21), (3, 15), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1, 21), (2, 15), (3, 21)))],
)
def test_one_to_three_axes_agree_at_every_opset(rank: int, opset: int, tmp_path: Path) -> None:
    kind = (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)[rank - 1]
    layer = kind(3, 3, strides=2, padding="same", activation="relu")
    assert_agrees(make_model([layer], (None,) * rank), tmp_path, [(2, *(5, 6, 4)[:rank])], opset)
