"""Positions of a grid, and its flattening into a sequence, agree with arithmetic written separately."""

from typing import Any

import keras
import numpy as np
import pytest

import keras_pe
from keras_pe import Coordinates, FourierFeatures, SinusoidalPositionEncoding, from_convention
from keras_pe.conventions import CONVENTIONS

ROWS, COLUMNS, CHANNELS = 5, 7, 24
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(2, CHANNELS // 2))


def signal(layer: keras.layers.Layer, *shape: int) -> np.ndarray:
    return np.asarray(layer(np.zeros((1, *shape, CHANNELS), np.float32)))[0]


def block(positions: np.ndarray) -> np.ndarray:
    """The paper's sines, then its cosines, of one axis of an image."""
    angles = np.outer(positions, 10000.0 ** -(np.arange(CHANNELS // 4) / (CHANNELS // 4)))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def mae_table() -> np.ndarray:
    """MAE's table: a row of zeros, then row after row of the image; the columns of the image come first."""
    return np.concatenate(
        [np.zeros((1, CHANNELS)), *(np.hstack([block([x]), block([y])]) for y in range(ROWS) for x in range(COLUMNS))]
    )


def moco_table() -> np.ndarray:
    """MoCo's table: column after column of the image."""
    return np.concatenate([np.hstack([block([x]), block([y])]) for x in range(COLUMNS) for y in range(ROWS)])


def test_class_tokens_have_rows_of_zeros_before_the_grid() -> None:
    layer = from_convention("mae-2d", CHANNELS, combine="replace", grid_shape=(ROWS, COLUMNS), class_tokens=1)
    np.testing.assert_allclose(signal(layer, ROWS * COLUMNS + 1), mae_table(), rtol=0, atol=2.5e-7)
    added = from_convention("mae-2d", CHANNELS, grid_shape=(ROWS, COLUMNS), class_tokens=1)
    tokens = RNG.normal(size=(2, ROWS * COLUMNS + 1, CHANNELS)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(added(tokens))[:, 0], tokens[:, 0])


def test_a_table_made_column_after_column_is_read_as_the_code_reads_it() -> None:
    flat = from_convention("moco-v3-2d", CHANNELS, combine="replace", grid_shape=(ROWS, COLUMNS))
    np.testing.assert_allclose(signal(flat, ROWS * COLUMNS), moco_table(), rtol=0, atol=2.5e-7)
    grid = signal(from_convention("moco-v3-2d", CHANNELS, combine="replace"), ROWS, COLUMNS)
    np.testing.assert_allclose(grid.reshape(-1, CHANNELS), moco_table(), rtol=0, atol=2.5e-7)


def test_a_sequence_takes_class_tokens_too() -> None:
    layer = SinusoidalPositionEncoding(combine="replace", grid_shape=(6,), class_tokens=2)
    expected = np.concatenate([np.zeros((2, CHANNELS)), keras_pe.timing_signal(np.arange(6), CHANNELS)])
    np.testing.assert_allclose(signal(layer, 8), expected, rtol=0, atol=2.5e-7)


@pytest.mark.parametrize(
    ("coordinates", "expected"),
    [
        (Coordinates(-1, 1, "edges"), np.linspace(-1, 1, ROWS)),
        (Coordinates(0, 1), (np.arange(ROWS) + 0.5) / ROWS),
        (Coordinates(0, 16, "starts"), np.arange(ROWS) / (ROWS / 16)),
        (Coordinates(0, 2 * np.pi, "ends", 1e-6), (np.arange(ROWS) + 1) / (ROWS + 1e-6) * 2 * np.pi),
    ],
)
def test_coordinates_are_parts_of_the_axis(coordinates: Coordinates, expected: np.ndarray) -> None:
    np.testing.assert_allclose(coordinates.of(np.arange(ROWS), ROWS), expected, rtol=1e-15)
    layer = SinusoidalPositionEncoding(
        endpoint=False, combine="replace", coordinates=coordinates, grid_shape=(ROWS, COLUMNS)
    )
    actual = signal(layer, ROWS * COLUMNS).reshape(ROWS, COLUMNS, CHANNELS)[:, 0, : CHANNELS // 2]
    np.testing.assert_allclose(actual, block(expected), rtol=0, atol=2.5e-7)
    assert coordinates.of(0, 1) <= coordinates.high  # a single position causes no division by zero


def exact_projection(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    y, x = np.meshgrid(rows, columns, indexing="ij")
    angles = 2 * np.pi * (np.stack([x, y], axis=-1) @ MATRIX)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def test_fourier_features_are_those_of_the_projections() -> None:
    rows, columns = (2 * (np.arange(size) + 0.5) / size - 1 for size in (ROWS, COLUMNS))
    sam = from_convention("sam-2d", CHANNELS, matrix=MATRIX, combine="replace")
    np.testing.assert_allclose(signal(sam, ROWS, COLUMNS), exact_projection(rows, columns), rtol=0, atol=2.5e-7)
    counted = FourierFeatures(MATRIX, reverse_axes=True, combine="replace")
    expected = exact_projection(np.arange(ROWS), np.arange(COLUMNS))
    np.testing.assert_allclose(signal(counted, ROWS, COLUMNS), expected, rtol=0, atol=5e-7)


def test_fourier_features_are_exact_far_away_and_where_a_rate_is_zero() -> None:
    matrix = np.array([[0.3, -0.7, 0.0], [0.0, 2.5, 0.0]])
    far = [np.array([2**24 - 1, -(2**24), 12_345_678]), np.array([0.25, -1.5, 1e6])]
    layer = FourierFeatures(matrix, combine="replace")
    actual = np.asarray(layer(np.zeros((1, 3, 6), np.float32), positions=far))[0]
    turns = np.stack(far, axis=-1) @ matrix
    turns -= np.round(turns)  # 2**24 turns are known to 4e-9 of a turn, 2e-8 in all
    expected = np.concatenate([np.sin(2 * np.pi * turns), np.cos(2 * np.pi * turns)], axis=-1)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=5e-7 + 3e-8)


def in_a_graph(layer: keras.layers.Layer) -> np.ndarray:
    """Returns the signal in a graph of TensorFlow that takes images of any size."""
    tf = pytest.importorskip("tensorflow")
    if keras.config.backend() != "tensorflow":
        pytest.skip("sizes are known elsewhere")
    graph = tf.function(layer, input_signature=[tf.TensorSpec((1, None, None, CHANNELS))])
    return np.asarray(graph(np.zeros((1, ROWS, COLUMNS, CHANNELS), np.float32)))[0]


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("name", [name for name, each in CONVENTIONS.items() if each.axes == 2])
def test_sizes_that_are_not_known_change_nothing(name: str) -> None:
    matrix = {} if CONVENTIONS[name].schedule else {"matrix": MATRIX}
    layer = from_convention(name, CHANNELS, combine="replace", **matrix)
    # A coordinate is rounded three times, and turns at 112 half turns of 1 at most, or at 3 turns of the matrix.
    widest = layer.coordinates.high if layer.coordinates else 0.0
    fastest = {"perceiver-2d": 112 * np.pi, "timm-fourier-2d": 112 * np.pi, "sam-2d": 6 * np.pi}.get(name, 1.0)
    tolerance = 5e-7 + 3 * 2.0**-24 * widest * fastest
    np.testing.assert_allclose(in_a_graph(layer), signal(layer, ROWS, COLUMNS), rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "arguments",
    [
        {"coordinates": Coordinates(-1, 1, "edges"), "grid_shape": (ROWS, COLUMNS), "class_tokens": 2},
        {"flatten": "columns", "grid_shape": [ROWS, COLUMNS]},
    ],
)
def test_a_layer_made_again_says_the_same(arguments: dict[str, Any]) -> None:
    tokens = ROWS * COLUMNS + arguments.get("class_tokens", 0)
    for layer in (
        SinusoidalPositionEncoding(combine="replace", **arguments),
        FourierFeatures(MATRIX, combine="replace", **arguments),
    ):
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
        np.testing.assert_array_equal(signal(again, tokens), signal(layer, tokens))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"class_tokens": 1}, "`class_tokens` must be"),
        ({"grid_shape": (0, 3)}, "`grid_shape` must be positive"),
        ({"grid_shape": 3}, "`grid_shape` must be positive integers, one per axis, or None. Received: grid_shape=3"),
        ({"flatten": "rows first"}, "`flatten` must be"),
        ({"coordinates": Coordinates(), "max_length": 9}, "`max_length` must be None"),
        ({"coordinates": Coordinates(), "start_index": 1}, "`start_index` must be 0"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SinusoidalPositionEncoding(**arguments)


def test_calls_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have shape \(batch, 36, channels\)"):
        signal(from_convention("mae-2d", CHANNELS, grid_shape=(ROWS, COLUMNS), class_tokens=1), 35)
    with pytest.raises(ValueError, match="`start_index` must be None"):
        from_convention("detr-normalized-2d", CHANNELS)(np.zeros((1, 5, 7, CHANNELS), np.float32), start_index=3)
    with pytest.raises(TypeError, match="`matrix` must be given"):
        from_convention("sam-2d", CHANNELS)
    with pytest.raises(TypeError, match="`matrix` must not be given"):
        from_convention("mae-2d", CHANNELS, matrix=MATRIX)
    with pytest.raises(ValueError, match="`matrix` must have one row for each"):
        signal(FourierFeatures(MATRIX), 5)
    with pytest.raises(ValueError, match="must have 24 channels"):
        FourierFeatures(MATRIX)(np.zeros((1, 2, 2, 8), np.float32))
    with pytest.raises(ValueError, match="`matrix` must be finite"):
        FourierFeatures([0.1, 0.2])
    with pytest.raises(ValueError, match="`at` must be one of"):
        Coordinates(at="middle")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`coordinates` must be"):
        SinusoidalPositionEncoding(coordinates=3)  # type: ignore[arg-type]
