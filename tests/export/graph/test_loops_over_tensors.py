"""A recurrent layer traced as a loop over tensors returns what Keras' own loop does."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_pe.export.graph.litert_forms import litert_forms

LAYERS = {
    "last": lambda: layers.GRU(3),
    "backwards": lambda: layers.LSTM(3, return_sequences=True, go_backwards=True),
    "padding left out": lambda: layers.LSTM(3, return_sequences=True, zero_output_for_mask=True),
    "cells": lambda: layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)], return_sequences=True, return_state=True),
    "unrolled": lambda: layers.SimpleRNN(3, unroll=True),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind != "cells" else ()) for kind in LAYERS]
)
def test_a_recurrent_layer_returns_what_it_does_in_keras(kind: str) -> None:
    keras.utils.set_random_seed(0)
    layer = LAYERS[kind]()
    sequences = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    mask = np.array([[True, False, True, True, False], [True] * 5])
    expected = [layer(sequences, mask=mask), layer(sequences)]
    length = 5 if kind == "unrolled" else None

    @tf.function(input_signature=[tf.TensorSpec((None, length, 4)), tf.TensorSpec((None, length), "bool")])
    def traced(sequences: Any, mask: Any) -> Any:
        return [layer(sequences, mask=mask), layer(sequences)]

    with litert_forms():
        graph = traced.get_concrete_function()
    assert (kind == "unrolled") or not any(op.type.startswith("TensorList") for op in graph.graph.get_operations())
    for actual, truth in zip(keras.tree.flatten(graph(sequences, mask)), keras.tree.flatten(expected), strict=True):
        # Five steps, each rounds some ten times to 2**-24.
        np.testing.assert_allclose(actual, truth, rtol=0, atol=3e-6, strict=False)


KNOWN = {
    "gated": lambda: layers.GRU(3, return_sequences=True),
    "gated, last": lambda: layers.GRU(3, use_bias=False),
    "gated, backwards": lambda: layers.GRU(3, return_sequences=True, go_backwards=True),
    "gated before the product": lambda: layers.GRU(3, reset_after=False, zero_output_for_mask=True, return_state=True),
    "another activation": lambda: layers.LSTM(3, activation="relu", return_sequences=True),
    "cells": LAYERS["cells"],
}


@pytest.mark.parametrize("steps", [7, 23])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind != "gated" else ()) for kind in KNOWN]
)
def test_a_loop_with_several_steps_in_a_turn_returns_what_the_layer_does_in_keras(kind: str, steps: int) -> None:
    keras.utils.set_random_seed(0)
    layer, rng = KNOWN[kind](), np.random.default_rng(0)
    sequences, mask = rng.normal(size=(2, steps, 4)).astype("float32"), rng.random((2, steps)) > 0.4
    expected = [layer(sequences, mask=mask), layer(sequences)]

    @tf.function(input_signature=[tf.TensorSpec((2, steps, 4)), tf.TensorSpec((2, steps), "bool")])
    def traced(sequences: Any, mask: Any) -> Any:
        return [layer(sequences, mask=mask), layer(sequences)]

    with litert_forms([layer], "fast"):
        graph = traced.get_concrete_function()
    for actual, truth in zip(keras.tree.flatten(graph(sequences, mask)), keras.tree.flatten(expected), strict=True):
        np.testing.assert_allclose(actual, truth, rtol=0, atol=1e-5, strict=False)
