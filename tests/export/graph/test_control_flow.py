"""Loops, branches and TimeDistributed arrive as Keras runs them, and are Keras' own again afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from keras.src.backend.tensorflow import core

from keras_pe.export import DisagreementError, check_parity, export_onnx
from keras_pe.export.graph.trace import convertible_control_flow
from tests.export.onnx.exported import Apply, export_and_compare

SIZES = ((2, 5), (1, 1), (3, 19))  # batch and steps


def step(carry: Any, row: Any) -> Any:
    return carry * 0.5 + row, carry - row


def scans(x: Any) -> Any:
    """Scans rows in both directions: of one tensor, of two tensors, and of a tensor without rows."""
    start, rows = ops.zeros_like(x[:, 0]), ops.transpose(x, (1, 0, 2))

    def two_steps(carry: Any, row: Any) -> Any:
        both = step(carry[0], row), step(carry[1], -row)
        return (both[0][0], both[1][0]), (both[0][1], both[1][1])

    results = (
        ops.scan(step, start, rows),
        ops.scan(step, start, rows, reverse=True),
        *ops.scan(two_steps, (start, start + 1.0), rows, reverse=True),
        ops.scan(lambda carry, _: (carry * 2.0, carry + 1.0), x, length=3),
    )
    return tuple(keras.tree.flatten(results))


def recurrence(first: Any, second: Any) -> Any:
    """A linear recurrence's two steps as one: it is associative, and the order matters."""
    return first[0] * second[0], first[1] * second[0] + second[1]


@pytest.mark.parametrize("length", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3, 7, 16))])
def test_an_associative_scan_is_traced_at_any_length(length: int) -> None:
    rng = np.random.default_rng(length)
    rows = tuple(rng.normal(size=(2, length, 3)).astype("float32") for _ in range(2))
    for axis, reverse in ((1, False), (-2, True)):
        expected = ops.associative_scan(recurrence, rows, reverse=reverse, axis=axis)
        for steps in (length, None):
            specs = [tf.TensorSpec((None, steps, 3))] * 2

            @tf.function(input_signature=specs, autograph=False)
            def scan(*rows: Any, axis: int = axis, reverse: bool = reverse) -> Any:
                return ops.associative_scan(recurrence, rows, reverse=reverse, axis=axis)

            with convertible_control_flow():
                actual = scan(*rows)
            for found, truth in zip(actual, expected, strict=True):
                # Four steps of two roundings each to 2**-24, of values of up to some hundred.
                np.testing.assert_allclose(found, truth, rtol=1e-6, atol=5e-5, strict=False)


def switches(x: Any) -> Any:
    branches = [lambda x: x + 1.0, lambda x: x * 2.0, lambda x: -x]
    index = ops.cast(ops.sum(x) > 0, "int32")
    return tuple(ops.switch(index + shift, branches, x) for shift in (-2, 0, 1, 5))  # below, within and beyond them


def loops(x: Any) -> Any:
    """Over as many steps as the input has, until its values are large, and over rows."""
    return (
        ops.fori_loop(0, ops.shape(x)[1], lambda i, y: y * 0.5 + x * ops.cast(i, "float32") / 20.0, x),
        ops.while_loop(lambda y: ops.max(y) < 10.0, lambda y: (y * 1.5 + 1.0,), (x,))[0],
        ops.cond(ops.sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0),
        ops.map(lambda row: row - ops.mean(row), x),
        ops.vectorized_map(lambda row: ops.matmul(row, ops.transpose(row)), x),
    )


@pytest.mark.slow
@pytest.mark.parametrize("function", [scans, switches, loops])
def test_loops_and_branches_arrive_at_any_length(function: Callable[[Any], Any], tmp_path: Path) -> None:
    usual, x = core.scan, keras.Input((None, 4), name="x")
    model = keras.Model(x, Apply(function)(x))
    cases = [np.random.default_rng(n).normal(size=(batch, n, 4)).astype("float32") for batch, n in SIZES]
    # Some twenty steps, each of two roundings to 2**-24, of values of up to some ten.
    export_and_compare(model, tmp_path / "m.onnx", *cases, atol=2e-5)
    assert core.scan is usual


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
    batches = (2, 5), (5, 2), (1, 1), (3, 19)  # and steps
    sizes = [[batch, *(steps + i if d is None else d for i, d in enumerate(shape))] for batch, steps in batches]
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
