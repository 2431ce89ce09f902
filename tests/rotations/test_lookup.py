"""Rows of tables: the numbers that are there, and an error or NaN where there are none."""

import contextlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import SinusoidalPositionEncoding
from keras_pe.rotations.composed import LIMIT, ComposedEncoding
from keras_pe.rotations.lookup import (
    RowsOfPositions,
    Table,
    TabulatedEncoding,
    TrainedRows,
    append_guard,
    rows_from,
    take,
)
from keras_pe.signal.formula import geometric_timescales, sines_and_cosines
from keras_pe.signal.layouts import assemble

ROWS = np.arange(8, dtype="float32").reshape(4, 2)
on_tensorflow = pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="how TensorFlow runs a graph")


@pytest.mark.parametrize(
    "look_up",
    [RowsOfPositions(append_guard(ROWS)).at, lambda rows: TrainedRows(len(ROWS)).at(ops.convert_to_tensor(ROWS), rows)],
    ids=["fixed", "trained"],
)
def test_a_row_past_the_end_is_refused_or_not_a_number(look_up: Callable[[Any], Any]) -> None:
    for row in (-1, 4, 5, 2**31 - 1, -(2**31)):
        taken = None
        with contextlib.suppress(Exception):  # each backend has one of its own
            taken = ops.convert_to_numpy(look_up(ops.convert_to_tensor([0, row], "int32")))
        assert taken is None or np.isnan(taken[1]).all()
    np.testing.assert_array_equal(look_up(ops.convert_to_tensor([3, 0], "int32")), ROWS[[3, 0]])


def test_an_eager_call_copies_no_table() -> None:
    table = Table(ROWS)
    first = table.tensor()
    assert table.tensor() is first
    if keras.config.backend() == "jax":
        import jax

        jax.jit(table.tensor)()  # a trace leaves no traced array behind
        assert table.tensor() is first


def test_a_clamped_index_reads_nan() -> None:
    past_the_end = len(ROWS) + 1
    clamped = take(append_guard(ROWS), min(past_the_end, len(ROWS)), np)
    assert np.isnan(clamped).all()


@pytest.mark.slow
@on_tensorflow
@pytest.mark.parametrize("max_length", [None, 200_000, 9_000, 600])
def test_xla_does_not_check_positions_and_returns_not_a_number(max_length: int | None) -> None:
    import tensorflow as tf

    layer = SinusoidalPositionEncoding(max_length=max_length)
    specs = [tf.TensorSpec([None, None, 8]), tf.TensorSpec([None], tf.int32)]
    compiled = tf.function(lambda x, p: layer(x, positions=p), specs, jit_compile=True)
    reach = max_length or 2**24
    signal = compiled(np.zeros((1, 3, 8), "float32"), np.array([1, reach, -(2**24) - 1], "int32")).numpy()[0]
    assert np.isfinite(signal[0]).all()
    assert np.isnan(signal[1:]).all()


def test_a_table_is_made_in_little_more_memory_than_it_takes_with_the_numbers_of_the_whole() -> None:
    positions, timescales = 3 + np.arange(2_000), geometric_timescales(32)
    tracemalloc.start()
    try:
        encoding = TabulatedEncoding(timescales, 65, "interleaved", 3, "float32", 2_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    expected = assemble(*sines_and_cosines(positions, timescales), 65, "interleaved").astype("float32")
    np.testing.assert_array_equal(ops.convert_to_numpy(encoding.at(ops.arange(2_000))), expected)
    assert peak < 2 * expected.nbytes


@on_tensorflow
@pytest.mark.parametrize("rows", [ROWS, append_guard(ROWS)], ids=["bare", "guarded"])
@pytest.mark.parametrize("length", [0, 1, 4, 5, 6, 7])
def test_a_length_that_only_the_graph_knows_is_checked(rows: np.ndarray, length: int) -> None:
    import tensorflow as tf

    graph = tf.function(lambda n: rows_from(rows, n, None, len(ROWS), take), [tf.TensorSpec([], tf.int32)])
    if length <= len(ROWS):
        np.testing.assert_array_equal(graph(length), ROWS[:length])
    else:
        with pytest.raises(tf.errors.InvalidArgumentError):
            graph(length)


@pytest.mark.slow
@on_tensorflow
def test_a_range_past_the_last_position_fails_in_a_graph_and_is_not_a_number_in_xla() -> None:
    import tensorflow as tf

    encoding = ComposedEncoding(np.ones(1), 2, "concatenated", 0, "float32", -LIMIT, LIMIT)
    spec = [tf.TensorSpec([], tf.int32)]
    for jit_compile in (False, True):
        graph = tf.function(lambda length: encoding.range(length), spec, jit_compile=jit_compile)
        assert np.isfinite(graph(LIMIT)).all()
        if jit_compile:
            assert np.isnan(graph(LIMIT + 1)).all()
        else:
            with pytest.raises(tf.errors.InvalidArgumentError):
                graph(LIMIT + 1)
