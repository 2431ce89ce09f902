"""Biases of two axes: Swin's and BEiT's tables and Swin v2's network, beside what their own code returns."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import ContinuousPositionBias, GridPositionBias, resize_position_table
from tests.golden.grid_tables import RETURNED
from tests.layers.configurations import run

LAYERS: dict[str, Callable[[], Any]] = {
    "swin": lambda: GridPositionBias(2, (3, 4), initializer="normal"),
    "beit": lambda: GridPositionBias(2, (3, 4), class_tokens=1, initializer="normal"),
    "swin_v2": lambda: ContinuousPositionBias(2, (3, 4)),
    "video": lambda: GridPositionBias(2, (2, 2, 3), initializer="normal"),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def tokens(count: int, batch: int = 1) -> np.ndarray:
    return np.zeros((batch, count, 2, 8), "float32")


def window_bias(layer: Any) -> int:
    return int(np.prod(layer.grid_shape)) + layer.class_tokens


def places(layer: Any) -> list[np.ndarray]:
    """Returns the positions of a whole grid along each axis."""
    return list(np.indices(layer.grid_shape).reshape(len(layer.grid_shape), -1))


def test_the_biases_are_those_of_swin_and_beit() -> None:
    with np.load(RETURNED) as file:
        for name, class_tokens in (("swin", 0), ("beit", 1)):
            layer = GridPositionBias(2, (3, 4), class_tokens=class_tokens)
            layer.build((None, 12 + class_tokens, 2, 8))
            layer.set_weights([file[f"{name}/table"]])
            np.testing.assert_array_equal(run(layer, tokens(12 + class_tokens))[0], file[f"{name}/bias"])


def test_the_network_is_that_of_swin_v2() -> None:
    with np.load(RETURNED) as file:
        for name, window, trained in (("swin_v2", (3, 4), None), ("swin_v2 of another window", (4, 5), (3, 2))):
            layer = ContinuousPositionBias(2, window, pretrained_grid_shape=trained)
            layer.build((None, None, 2, 8))
            kernel, bias, output = (file[f"{name}/{each}"] for each in ("kernel", "hidden_bias", "output"))
            layer.set_weights([kernel.T, bias, output.T])
            # Sums of 512 products of at most 0.15, in another order, through a sigmoid of slope 4.
            np.testing.assert_allclose(run(layer, tokens(np.prod(window)))[0], file[f"{name}/bias"], atol=1e-5)


def test_a_table_is_resized_for_another_window_as_others_do() -> None:
    with np.load(RETURNED) as file:
        table, places_of_table = file["timm beit/table"], file["timm beit/table"][:-3]
        resized = resize_position_table(places_of_table, (7, 7), (9, 11))
        np.testing.assert_allclose(np.concatenate([resized, table[-3:]]), file["timm beit/9x11"], atol=1e-5)
        layer = GridPositionBias(2, (3, 6), class_tokens=1)
        layer.build((None, 19, 2, 8))
        resized = resize_position_table(places_of_table, (7, 7), (5, 11), interpolation="bilinear")
        layer.set_weights([np.concatenate([resized, table[-3:]])])
        np.testing.assert_allclose(run(layer, tokens(19))[0], file["transformers beit window/bias"], atol=1e-5)


@every_layer
def test_positions_pick_parts_of_the_whole(name: str) -> None:
    layer = LAYERS[name]()
    count, first = window_bias(layer), layer.class_tokens
    whole = run(layer, tokens(count))
    np.testing.assert_array_equal(run(layer, tokens(count), positions=places(layer)), whole)
    chosen = np.array([5, 0, 11])
    index = np.concatenate([np.arange(first), chosen + first])
    part = run(layer, tokens(len(index)), positions=[each[chosen] for each in places(layer)])
    np.testing.assert_array_equal(part, whole[:, :, index][..., index])
    moved = [np.stack([each[chosen], each[chosen] + 9]).astype("uint8") for each in places(layer)]
    both = run(layer, tokens(len(index), 2), positions=moved)
    np.testing.assert_array_equal(both, np.repeat(part, 2, axis=0))


@every_layer
def test_its_shape_is_known_before_it_runs(name: str) -> None:
    layer, axes = LAYERS[name](), len(LAYERS[name]().grid_shape)
    count, few = window_bias(layer), 4 + layer.class_tokens
    spec = keras.KerasTensor
    assert layer(spec((2, count, 2, 8))).shape == (1, 2, count, count)
    assert layer(spec((None, None, 8))).shape == (1, 2, count, count)
    assert layer(spec((3, few, 8)), positions=[spec((4,), "int32")] * axes).shape == (1, 2, few, few)
    assert layer(spec((3, few, 8)), positions=[spec((3, 4), "int32")] * axes).shape == (3, 2, few, few)
    assert layer.compute_output_shape((3, count, 8)) == (1, 2, count, count)


@every_layer
def test_narrow_layers_round_last(name: str) -> None:
    wide = LAYERS[name]()
    bias = run(wide, tokens(window_bias(wide)))
    narrow = type(wide).from_config({**wide.get_config(), "dtype": "mixed_bfloat16"})
    narrow.build((None, None, 2, 8))
    narrow.set_weights(wide.get_weights())
    found = ops.convert_to_numpy(ops.cast(narrow(tokens(window_bias(wide))), "float32"))
    assert (np.abs(found - bias) <= 2.0**-8 * np.abs(bias)).all()  # half a unit of 8 digits


@pytest.mark.slow
@every_layer
def test_it_is_trained_and_comes_back_from_a_file(tmp_path: Path, name: str) -> None:
    layer = LAYERS[name]()
    count, axes = window_bias(layer), len(layer.grid_shape)
    queries = keras.Input((None, 2, 8), name="queries")
    given = [keras.Input((None,), dtype="int32", name=f"axis_{axis}") for axis in range(axes)]
    model = keras.Model([queries, *given], layer(queries, positions=given))
    inputs = [tokens(count, 2), *(np.repeat(each[None], 2, axis=0) for each in places(layer))]
    before = [each.copy() for each in layer.get_weights()]
    model.compile("sgd", "mse")
    model.fit(inputs, np.ones((2, 2, count, count), "float32"), verbose=0)
    assert all((new != old).any() for new, old in zip(layer.get_weights(), before, strict=True))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="lengths that are not known are TensorFlow's")
def test_a_graph_fails_where_a_single_token_would_meet_a_whole_window() -> None:
    import tensorflow as tf

    layer = LAYERS["swin"]()
    graph = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 2, 8])])
    assert graph(tokens(12)).shape == (1, 2, 12, 12)
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(tokens(1))


def test_float_positions_are_refused_where_a_model_is_built() -> None:
    queries, floats = keras.Input((None, 2, 8)), keras.Input((None,), dtype="float32")
    for given in (floats, np.zeros(1, "float32")):
        with pytest.raises(TypeError, match="`positions` must be integers in layer"):
            GridPositionBias(2, (3, 4))(queries, positions=[keras.Input((None,), dtype="int32"), given])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: GridPositionBias(0, (3, 4)), "`num_heads` must be"),
        (lambda: GridPositionBias(2, 7), "`grid_shape` must be positive integers"),
        (lambda: GridPositionBias(2, (3, 4), class_tokens=2), "`class_tokens` must be 0 or 1"),
        (lambda: ContinuousPositionBias(2, (3, 4), pretrained_grid_shape=(3,)), "must have one size for each of the 2"),
        (lambda: ContinuousPositionBias(2, (3, 4), units=0), "`units` must be"),
        (lambda: GridPositionBias(2, (3, 4))(np.zeros(3)), "`queries` must have shape"),
        (lambda: GridPositionBias(2, (3, 4))(tokens(13)), "`queries` must have 12 tokens"),
        (lambda: GridPositionBias(2, (3, 4))(tokens(2), [np.arange(2)]), "`positions` must have one value for each"),
        (lambda: GridPositionBias(2, (3, 4))(tokens(2), np.arange(2)), "`positions` must be a list of 2"),
        (lambda: GridPositionBias(2, (3, 4))(tokens(2), [np.arange(3)] * 2), "`positions` must have shape"),
        (lambda: GridPositionBias(2, (3, 4))(tokens(2), [np.array([0, 3])] * 2), "must be less than 3 apart"),
        (lambda: GridPositionBias(2, (3, 4))(tokens(2), [np.full(2, 2**29)] * 2), "Positions must be from"),
    ],
)
def test_an_invalid_argument_is_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        call()
