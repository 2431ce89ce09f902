"""A trained table of a grid: resized inside a model as outside of it, whatever is known of the image."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import GridPositionEmbedding, resize_position_table
from tests.layers.configurations import run

BACKEND = keras.config.backend()
RNG = np.random.default_rng(0)
GRID, NEW = (7, 5), [(7, 5), (7, 9), (3, 5), (16, 21), (1, 1)]
RULES: list[dict[str, Any]] = [
    {"antialias": True},
    {"scale_offset": 0.1},
    {},
    {"interpolation": "bilinear"},
    {"interpolation": "bilinear", "antialias": True, "scale_offset": 0.1},
    {"align_corners": True},
    {"align_corners": True, "antialias": True},
]
# A weight has about eight roundings, and four of them with numbers up to 4 are summed along each of two axes.
ATOL = 4e-6


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, "float32")


def load_layer(channels: int = 3, **arguments: Any) -> tuple[GridPositionEmbedding, np.ndarray]:
    layer = GridPositionEmbedding(GRID, **{"class_tokens": 2, "combine": "replace", **arguments})
    layer.build((None, None, channels))
    table = RNG.normal(size=layer.weights[0].shape).astype("float32")
    layer.set_weights([table])
    return layer, table


def trace_any_size(layer: GridPositionEmbedding) -> Callable[[Any, Any], Any]:
    """Returns the layer as a graph that learns the sizes of an image when it runs, where a backend has such."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        specs = [tf.TensorSpec([1, None, 3]), tf.TensorSpec([None, None, None, 1])]
        return tf.function(lambda x, grid: layer(x, grid=grid), input_signature=specs)  # type: ignore[no-any-return]
    if BACKEND == "torch":
        import torch

        compiled = torch.compile(lambda x, grid: layer(x, grid=grid), backend="eager", dynamic=True)
        return lambda *arrays: compiled(*map(ops.convert_to_tensor, arrays))
    import jax

    return jax.jit(lambda x, grid: layer(x, grid=grid))  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore")  # TorchDynamo warns of what it does itself
@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=[] if rule in RULES[:1] else pytest.mark.slow, id=str(rule)) for rule in RULES]
)
def test_another_grid_has_the_numbers_of_the_resized_table(rule: dict[str, Any]) -> None:
    layer, table = load_layer(**rule)
    graph = trace_any_size(layer)
    for new in NEW:
        expected = resize_position_table(table, GRID, new, class_tokens=2, **rule)
        tokens, grid = zeros(1, len(expected), 3), zeros(1, *new, 1)
        for found in (layer(tokens, grid), graph(tokens, grid)):
            np.testing.assert_allclose(ops.convert_to_numpy(found)[0], expected, rtol=0, atol=ATOL)
    np.testing.assert_array_equal(layer.get_weights()[0], table)


def test_the_trained_grid_has_the_numbers_of_the_table_however_it_is_given() -> None:
    layer, table = load_layer(scale_offset=0.1)
    for found in (layer(zeros(4, 37, 3)), layer(zeros(4, 37, 3), zeros(4, *GRID, 1))):
        np.testing.assert_array_equal(ops.convert_to_numpy(found), np.repeat(table[None], 4, axis=0))
    np.testing.assert_array_equal(
        ops.convert_to_numpy(trace_any_size(layer)(zeros(1, 37, 3), zeros(1, *GRID, 1)))[0], table
    )


def test_without_class_tokens_the_inputs_may_be_the_grid() -> None:
    layer, table = load_layer(class_tokens=0, combine="add")
    images = RNG.normal(size=(2, 4, 9, 3)).astype("float32")
    grown = GridPositionEmbedding.from_config(layer.get_config())
    grown(images)
    grown.set_weights([table])
    expected = images + resize_position_table(table, GRID, (4, 9)).reshape(4, 9, 3)
    np.testing.assert_allclose(run(grown, images), expected, rtol=0, atol=ATOL)
    tokens = run(layer, images.reshape(2, 36, 3), grid=images)
    np.testing.assert_array_equal(tokens.reshape(2, 4, 9, 3), run(grown, images))


def test_the_tokens_of_one_axis_are_counted() -> None:
    layer = GridPositionEmbedding((9,), class_tokens=1, combine="replace")
    found = run(layer, zeros(1, 1 + 14, 4))[0]
    expected = resize_position_table(ops.convert_to_numpy(layer.weights[0]), (9,), (14,), class_tokens=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL)


def test_the_table_is_trained_by_images_of_another_size() -> None:
    images = keras.Input((6, 4, 3))
    layer = GridPositionEmbedding((3, 2))
    model = keras.Model(images, layer(images))
    model.compile("sgd", "mse")
    before = layer.get_weights()[0].copy()
    model.fit(zeros(2, 6, 4, 3), np.ones((2, 6, 4, 3), "float32"), verbose=0)
    assert (layer.get_weights()[0] != before).all()


def test_narrow_layers_resize_in_float32_and_round_last() -> None:
    layer, table = load_layer(dtype="mixed_bfloat16")
    found = layer(zeros(1, 2 + 63, 3), zeros(1, 7, 9, 1))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    exact = resize_position_table(table, GRID, (7, 9), class_tokens=2)
    error = np.abs(ops.convert_to_numpy(ops.cast(found, "float32"))[0] - exact)
    assert (error <= ATOL + 2.0**-8 * np.abs(exact)).all()  # half a unit of 8 digits, and what was before


@pytest.mark.slow
def test_a_vision_transformer_comes_back_from_a_file_and_takes_other_images(tmp_path: Path) -> None:
    images = keras.Input((None, None, 3))
    patches = keras.layers.Conv2D(8, 4, strides=4)(images)
    tokens = keras.layers.Reshape((-1, 8))(patches)
    encoded = GridPositionEmbedding((3, 3), antialias=True)(tokens, grid=patches)
    model = keras.Model(images, encoded)
    model.save(tmp_path / "model.keras")
    read = keras.saving.load_model(tmp_path / "model.keras")
    for size in ((12, 12), (20, 8)):
        inputs = RNG.normal(size=(2, *size, 3)).astype("float32")
        np.testing.assert_array_equal(read.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
    layer = next(each for each in read.layers if isinstance(each, GridPositionEmbedding))
    assert layer.get_config()["antialias"] is True
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("shape", "grid", "said"),
    [
        ((1, 36, 3), None, r"must have 2 class tokens and one for each place of the grid \(7, 5\)"),
        ((1, 38, 3), (1, 6, 7, 1), r"one for each place of the grid \(6, 7\)"),
        ((1, 37, 3), (1, 35), r"`grid` must be a tensor of shape \(batch, d1, d2, \.\.\.\)"),
        ((1, 7, 5, 3), None, "`inputs` must be tokens"),
        ((1, 2, 3), (1, 0, 5, 1), r"place of the grid \(0, 5\)"),
    ],
)
def test_tokens_that_form_no_grid_are_refused(
    shape: tuple[int, ...], grid: tuple[int, ...] | None, said: str, symbolic: bool
) -> None:
    make: Callable[[Any], Any] = keras.KerasTensor if symbolic else lambda sizes: zeros(*sizes)
    with pytest.raises(ValueError, match=said):
        GridPositionEmbedding(GRID, class_tokens=2)(make(shape), grid=None if grid is None else make(grid))


@pytest.mark.skipif(BACKEND != "tensorflow", reason="sizes that are not known are TensorFlow's")
def test_a_graph_fails_where_a_single_token_would_be_repeated_or_no_int32_holds_the_size() -> None:
    import tensorflow as tf

    layer, _ = load_layer(class_tokens=0, combine="replace")
    graph = trace_any_size(layer)
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(zeros(1, 1, 3), zeros(1, 3, 2, 1))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: GridPositionEmbedding(14), "`grid_shape` must be positive integers"),
        (lambda: GridPositionEmbedding((14, 0)), "`grid_shape` must be positive integers"),
        (lambda: GridPositionEmbedding(GRID, class_tokens=1.5), "`class_tokens` must be"),
        (lambda: GridPositionEmbedding(GRID, interpolation="cubic"), "`interpolation` must be one of"),
        (lambda: GridPositionEmbedding(GRID, combine="sum"), "`combine` must be one of"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
