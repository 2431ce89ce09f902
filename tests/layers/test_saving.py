"""A saved model comes back in a process that has only imported the package."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_pe import LearnedPositionEmbedding, SinusoidalPositionEncoding

LOAD = """
import sys, {first}, {second}, numpy
model = keras.saving.load_model(sys.argv[1], safe_mode=True)
numpy.save(sys.argv[2], model.predict(numpy.load(sys.argv[3]), verbose=0))
"""


@pytest.mark.slow
@pytest.mark.slow_rows(2 if keras.config.backend() == "tensorflow" else 1)  # no backend depends on the order
@pytest.mark.parametrize(("first", "second"), [("keras_pe", "keras"), ("keras", "keras_pe")])
def test_a_keras_file_loads_in_a_fresh_process_with_the_same_weights_and_numbers(
    tmp_path: Path, first: str, second: str
) -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((None, 6)),
            SinusoidalPositionEncoding(
                min_timescale=2.0,
                max_timescale=500.0,
                start_index=3,
                layout="interleaved",
                endpoint=False,
                max_length=40,
            ),
            LearnedPositionEmbedding(30, initializer="sinusoidal"),
            keras.layers.Dense(4),
        ]
    )
    inputs = np.random.default_rng(0).normal(size=(2, 7, 6)).astype("float32")
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "inputs.npy", inputs)
    script = LOAD.format(first=first, second=second)
    arguments = [str(tmp_path / name) for name in ("model.keras", "outputs.npy", "inputs.npy")]
    subprocess.run([sys.executable, "-c", script, *arguments], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "outputs.npy"), model.predict(inputs, verbose=0))


def test_a_table_for_several_axes_comes_back_with_its_axes(tmp_path: Path) -> None:
    inputs, x, y = keras.Input((None, 8)), keras.Input((None,)), keras.Input((None,))
    model = keras.Model([inputs, x, y], SinusoidalPositionEncoding()(inputs, positions=[x, y]))
    model.save(tmp_path / "model.keras")
    given = [np.zeros((1, 2, 8), "float32"), np.array([[1.0, 2.5]]), np.array([[3.0, 4.0]])]
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(given, verbose=0), model.predict(given, verbose=0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
@pytest.mark.parametrize("combine", ["add", "concatenate", "replace"])
def test_an_h5_file_comes_back(tmp_path: Path, combine: str) -> None:
    layers = [SinusoidalPositionEncoding(combine=combine), LearnedPositionEmbedding(30, combine=combine)]
    model = keras.Sequential([keras.Input((None, 6)), *layers])
    model.save(tmp_path / "model.h5")
    inputs = np.random.default_rng(0).normal(size=(2, 7, 6)).astype("float32")
    loaded = keras.saving.load_model(tmp_path / "model.h5", compile=False)
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
