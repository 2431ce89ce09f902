"""TimeDistributed over any number of steps arrives as Keras runs it, and is Keras' own layer again afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from keras_pe.export import DisagreementError, check_parity, export_onnx
from tests.export.onnx.exported import export_and_compare

BATCHES = ((2, 5), (5, 2), (1, 1), (3, 19))  # and steps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: layers.Conv1D(3, 2), (None, 6, 4)),
        (lambda: layers.LSTM(3), (None, 6, 4)),
        (lambda: layers.TimeDistributed(layers.Dense(3)), (None, None, 4)),
        (lambda: keras.Sequential([layers.LayerNormalization(), layers.Dense(3), layers.Dropout(0.5)]), (None, 4)),
    ],
    ids=["convolution", "recurrent", "nested", "model"],
)
def test_any_number_of_steps_arrives(layer: Callable[[], Any], shape: tuple[Any, ...], tmp_path: Path) -> None:
    x = keras.Input(shape, name="x")
    wrapper = layers.TimeDistributed(layer())
    model = keras.Model(x, wrapper(x))
    sizes = [[batch, *(steps + i if d is None else d for i, d in enumerate(shape))] for batch, steps in BATCHES]
    cases = [np.random.default_rng(0).normal(size=each).astype("float32") for each in sizes]
    export_and_compare(model, tmp_path / "m.onnx", *cases, atol=2e-6)
    assert "call" not in vars(wrapper)


@pytest.mark.slow
def test_a_mask_goes_along(tmp_path: Path) -> None:
    tokens = keras.Input((None, 6), dtype="int32", name="x")
    embed = layers.Embedding(9, 4, mask_zero=True, embeddings_initializer=keras.initializers.RandomNormal(seed=0))
    model = keras.Model(tokens, layers.TimeDistributed(layers.LSTM(3, kernel_initializer="ones"))(embed(tokens)))
    values = np.random.default_rng(0).integers(0, 9, (3, 5, 6)).astype("int32")
    expected = np.asarray(model(values, training=False))
    assert np.abs(expected - np.asarray(model(np.maximum(values, 1), training=False))).max() > 1e-3
    export_and_compare(model, tmp_path / "m.onnx", values, atol=2e-6)


@pytest.mark.slow
def test_a_layer_that_mixes_rows_is_refused(tmp_path: Path) -> None:
    x = keras.Input((None, 4), name="x")
    centered = layers.Lambda(lambda rows: rows - keras.ops.mean(rows, axis=0, keepdims=True), output_shape=(4,))
    with pytest.raises(DisagreementError, match="differs from Keras'"):
        export_onnx(keras.Model(x, layers.TimeDistributed(centered)(x)), tmp_path / "m.onnx")


@pytest.mark.slow
def test_a_check_of_it_passes(tmp_path: Path) -> None:
    x = keras.Input((None, 6, 4), name="x")
    timed = layers.TimeDistributed(layers.Dense(3))(x)
    artifact = export_onnx(keras.Model(x, timed), tmp_path / "m.onnx")
    report = check_parity(keras.Model(x, timed), [artifact])
    assert report.passed, report
