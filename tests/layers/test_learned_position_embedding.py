"""Trained positions: looked up, summed over axes, never past the end."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import LearnedPositionEmbedding, timing_signal
from tests.layers.configurations import exact_grid
from tests.raised import about


def run(layer: keras.layers.Layer, *inputs: Any, **arguments: Any) -> np.ndarray:
    return ops.convert_to_numpy(layer(*inputs, **arguments))


def built(max_length: Any = 10, shape: tuple[int, ...] = (2, 4, 6), **arguments: Any) -> LearnedPositionEmbedding:
    keras.utils.set_random_seed(0)
    layer = LearnedPositionEmbedding(max_length, combine="replace", **arguments)
    layer.build(shape)
    return layer


def test_rows_of_the_table_are_looked_up_by_range_start_and_position() -> None:
    layer, inputs = built(), np.zeros((2, 4, 6), "float32")
    table = ops.convert_to_numpy(layer.weights[0])
    np.testing.assert_array_equal(run(layer, inputs), np.broadcast_to(table[:4], inputs.shape))
    np.testing.assert_array_equal(run(layer, inputs, start_index=6)[0], table[6:])
    np.testing.assert_array_equal(run(layer, inputs, start_index=np.array([0, 3], "int32"))[1], table[3:7])
    positions = np.array([[0, 9, 9, 1], [2, 3, 4, 5]])
    np.testing.assert_array_equal(run(layer, inputs, positions=positions), table[positions])


def test_the_tables_of_a_grid_are_summed() -> None:
    layer = built([5, 7], (1, 3, 4, 6))
    rows, columns = (ops.convert_to_numpy(weight) for weight in layer.weights)
    assert rows.shape == (5, 6)
    assert columns.shape == (7, 6)
    signal = run(layer, np.zeros((1, 3, 4, 6), "float32"))[0]
    np.testing.assert_allclose(signal, rows[:3, None] + columns[None, :4], rtol=2.0**-23)  # one rounding of the sum


def test_it_can_start_from_the_sinusoidal_signal() -> None:
    signal = run(built(initializer="sinusoidal"), np.zeros((1, 4, 6), "float32"))[0]
    np.testing.assert_allclose(signal, timing_signal(np.arange(4), 6), atol=2.0**-24)
    grid = run(built(8, (1, 3, 4, 9), initializer="sinusoidal"), np.zeros((1, 3, 4, 9), "float32"))[0]
    np.testing.assert_allclose(grid, exact_grid((3, 4), 9), atol=2.0**-24)


def test_the_table_is_trained() -> None:
    model = keras.Sequential([keras.Input((4, 6)), LearnedPositionEmbedding(10)])
    model.compile("sgd", "mse")
    before = ops.convert_to_numpy(model.weights[0]).copy()
    model.fit(np.zeros((2, 4, 6), "float32"), np.ones((2, 4, 6), "float32"), verbose=0)
    changed = (ops.convert_to_numpy(model.weights[0]) != before).any(axis=-1)
    np.testing.assert_array_equal(changed, np.arange(10) < 4)


def test_each_axis_starts_from_values_of_its_own() -> None:
    rows, columns = (ops.convert_to_numpy(weight) for weight in built(5, (1, 3, 4, 6), initializer="normal").weights)
    assert (rows != columns).any()


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"start_index": 7}, ValueError, "Positions must be from 0 to 9"),
        ({"start_index": -1}, ValueError, "Positions must be from 0 to 9"),
        ({"positions": np.array([0.5, 1.0, 2.0, 3.0], "float32")}, TypeError, "`positions` must be integers"),
    ],
)
def test_a_position_without_a_row_is_refused(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        built()(np.zeros((2, 4, 6), "float32"), **arguments)


def test_an_input_past_the_end_is_refused_and_so_is_no_end() -> None:
    with pytest.raises(ValueError, match="Positions must be from 0 to 2"):
        LearnedPositionEmbedding(3)(keras.Input((4, 6)))
    with pytest.raises(TypeError, check=about("max_length")):
        LearnedPositionEmbedding(None)


def test_an_array_is_no_initializer_and_axes_of_another_call_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Received: an array of shape \(10, 6\)"):
        LearnedPositionEmbedding(10, initializer=np.zeros((10, 6)))
    with pytest.raises(ValueError, match="must be those of 1 axes"):
        built()(np.zeros((2, 4, 6), "float32"), positions=[np.arange(4), np.arange(4)])
