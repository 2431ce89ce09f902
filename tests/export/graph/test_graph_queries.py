"""The view of a traced graph finds stateful operations, and ignores harmless ones."""

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

from keras_pe.export.graph.graph_queries import GraphView

SPEC = tf.TensorSpec([None, 3], "float32")


def view(function: Callable[[Any], Any]) -> GraphView:
    function = tf.function(function, input_signature=[SPEC], autograph=False)
    return GraphView(function.get_concrete_function().graph, [keras.Sequential()])


def noise(x: Any) -> Any:
    return keras.random.normal(tf.shape(x), seed=1)


def call_noise(x: Any) -> Any:
    return tf.function(lambda y: tf.function(noise)(y) * 2.0, autograph=False)(x)


def branch_to_noise(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: noise(x))


def loop_over_noise(x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + noise(y)), [0, x])[1]


def loop_until_noise(x: Any) -> Any:
    return tf.while_loop(lambda y: tf.reduce_sum(noise(y)) < 3, lambda y: (y + 1,), [x])[0]


NOISY = [noise, call_noise, branch_to_noise, loop_over_noise, loop_until_noise]


@pytest.mark.parametrize("noisy", NOISY)
def test_random_numbers_are_found_wherever_they_are_drawn(noisy: Callable[[Any], Any]) -> None:
    kinds = {kind for _, kind in view(lambda x: x + noisy(x)).random_operators()}
    assert "StatelessRandomNormalV2" in kinds


@pytest.mark.parametrize("noisy", NOISY)
def test_random_numbers_that_are_thrown_away_are_not(noisy: Callable[[Any], Any]) -> None:
    def call(x: Any) -> Any:
        noisy(x)
        return x * 2.0

    assert view(call).random_operators() == []


def test_random_numbers_thrown_away_within_a_function_are_not_found_either() -> None:
    assert view(tf.function(lambda x: (noise(x), x * 2.0)[1], autograph=False)).random_operators() == []


@pytest.mark.parametrize(
    ("read", "count"), [(lambda x, state: x + state, 1), (lambda x, state: x, 0)], ids=["read", "unread"]
)
def test_a_changed_variable_matters_where_an_output_reads_it(read: Callable[..., Any], count: int) -> None:
    state = tf.Variable(0.0)

    def call(x: Any) -> Any:
        state.assign_add(1.0)
        return read(x, state)

    assert len(view(call).assigning_operators()) == count
