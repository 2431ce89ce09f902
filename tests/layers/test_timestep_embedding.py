"""Time steps of diffusion models, whole and not, in narrow types, from configuration to file."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import TimestepEmbedding, from_convention
from tests.layers.configurations import EXACT, run


def exact(times: np.ndarray, channels: int, flip: bool, shift: float, scale: float) -> np.ndarray:
    half = channels // 2
    angles = np.multiply.outer(scale * np.asarray(times, np.float64), 10000.0 ** (-np.arange(half) / (half - shift)))
    signal = np.concatenate([np.cos(angles), np.sin(angles)] if flip else [np.sin(angles), np.cos(angles)], axis=-1)
    return np.pad(signal, [(0, 0)] * np.ndim(times) + [(0, channels % 2)])


@pytest.mark.parametrize(("flip", "shift", "scale"), [(False, 1.0, 1.0), (True, 0.0, 1.0), (True, 0.0, 1000.0)])
@pytest.mark.parametrize("channels", [8, 9, 256])
def test_times_whole_or_not_are_exact(channels: int, flip: bool, shift: float, scale: float) -> None:
    layer = TimestepEmbedding(channels, flip, shift, scale)
    for times in (
        np.array([0, 1, 999]),
        np.array([0.0, 0.25, 0.999, 731.5], "float32"),
        np.array([[1 / 3, 1e-5], [0.7, 1.0]], "float32"),
    ):
        assert np.abs(run(layer, times) - exact(times, channels, flip, shift, scale)).max() <= EXACT


@pytest.mark.parametrize("times", [7, 7.25, [7, 8], (7.25, 8.0)])
def test_numbers_are_times(times: Any) -> None:
    assert np.abs(run(TimestepEmbedding(8), times) - exact(np.asarray(times), 8, False, 1.0, 1.0)).max() <= EXACT


def test_neighbors_stay_apart_in_bfloat16() -> None:
    layer = TimestepEmbedding(64, dtype="mixed_bfloat16")
    embedded = layer(np.array([990, 991]))
    assert keras.backend.standardize_dtype(embedded.dtype) == "bfloat16"
    expected = exact(np.array([990, 991]), 64, False, 1.0, 1.0)
    assert np.abs(ops.convert_to_numpy(ops.cast(embedded, "float32")) - expected).max() <= 2.0**-9 + EXACT


def test_it_is_the_convention_of_that_name() -> None:
    encoding = from_convention("diffusers-unet", 16, combine="replace")
    embedding = TimestepEmbedding(16, flip_sin_to_cos=True, downscale_freq_shift=0)
    np.testing.assert_allclose(run(embedding, np.arange(50)), run(encoding, np.zeros((1, 50, 16)))[0], atol=2 * EXACT)


@pytest.mark.slow
def test_a_model_comes_back_from_its_file(tmp_path: Path) -> None:
    times = keras.Input((), name="times")
    model = keras.Model(times, TimestepEmbedding(8, True, 0, 1000.0)(times))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    given = np.array([0.1, 0.9], "float32")
    np.testing.assert_array_equal(loaded.predict(given, verbose=0), model.predict(given, verbose=0))


def test_an_invalid_argument_is_refused() -> None:
    for arguments in ({"num_channels": 1}, {"num_channels": 2}, {"num_channels": 8, "scale": 0.0}):
        with pytest.raises(ValueError, match="Received: "):
            TimestepEmbedding(**arguments)
    with pytest.raises(TypeError, match="`downscale_freq_shift` must be a number"):
        TimestepEmbedding(8, downscale_freq_shift="1")
    with pytest.raises(ValueError, match="Positions must be from"):
        TimestepEmbedding(8)(np.array([2.0**24]))
    for wrong in (np.array([1j], "complex64"), np.array([True]), keras.Input((), dtype="bool")):
        with pytest.raises(TypeError, match="`timesteps` must be integers or floats"):
            TimestepEmbedding(8)(wrong)
