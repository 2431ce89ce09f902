"""A recurrent layer traced as a loop over tensors returns what Keras' own loop does."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_pe.export.graph.litert_loops import loop_over_steps
from tests.export.graph.traced_forms import assert_traced_agrees, operator_types, trace_forms

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

    specs = [tf.TensorSpec((None, length, 4)), tf.TensorSpec((None, length), "bool")]
    traced = trace_forms(lambda sequences, mask: [layer(sequences, mask=mask), layer(sequences)], specs)
    assert (kind == "unrolled") or not any(each.startswith("TensorList") for each in operator_types(traced))
    # Five steps, each rounds some ten times to 2**-24.
    assert_traced_agrees(traced, expected, [sequences, mask], atol=3e-6)


KNOWN = {
    "gated": lambda: layers.GRU(3, return_sequences=True),
    "gated, last": lambda: layers.GRU(3, use_bias=False),
    "gated, backwards": lambda: layers.GRU(3, return_sequences=True, go_backwards=True),
    "gated before the product": lambda: layers.GRU(3, reset_after=False, zero_output_for_mask=True, return_state=True),
    "gated, with dropout": lambda: layers.GRU(3, dropout=0.5, return_sequences=True, seed=0),
    "gated, with dropout of the state": lambda: layers.GRU(3, recurrent_dropout=0.5, seed=0),
    "long memory, with dropout": lambda: layers.LSTM(3, dropout=0.5, return_sequences=True, seed=0),
    "another activation": lambda: layers.LSTM(3, activation="relu", return_sequences=True),
    "cells": LAYERS["cells"],
}


@pytest.mark.parametrize("steps", [7, 23])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind != "gated" else ()) for kind in KNOWN]
)
def test_a_loop_with_several_steps_in_a_turn_returns_what_the_layer_does_in_keras(kind: str, steps: int) -> None:
    keras.utils.set_random_seed(0)
    layer, training, rng = KNOWN[kind](), "dropout" in kind, np.random.default_rng(0)
    sequences, mask = rng.normal(size=(2, steps, 4)).astype("float32"), rng.random((2, steps)) > 0.4

    def call_layer(sequences: Any, mask: Any) -> Any:
        return [layer(sequences, mask=mask, training=training), layer(sequences, training=training)]

    expected = call_layer(sequences, mask)
    for seed in layer.non_trainable_variables:
        seed.assign([0, 0])

    specs = [tf.TensorSpec((2, steps, 4)), tf.TensorSpec((2, steps), "bool")]
    assert_traced_agrees(trace_forms(call_layer, specs, [layer], "fast"), expected, [sequences, mask], atol=1e-5)


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("steps", [7, 12])
def test_a_loop_over_images_of_unknown_sizes_returns_each_step(steps: int) -> None:
    def step(image: Any, states: Any) -> tuple[Any, list[Any]]:
        faded = (image + states[0]) / 2.0
        return faded, [faded]

    @tf.function(input_signature=[tf.TensorSpec((1, steps, None, None, 3))])
    def traced(images: Any) -> Any:
        options = {"go_backwards": False, "mask": None, "zero_output_for_mask": False, "return_all_outputs": True}
        return loop_over_steps(step, images, [images[:, 0] * 0.0], in_blocks=True, **options)

    images = np.random.default_rng(0).normal(size=(1, steps, 4, 2, 3)).astype("float32")
    expected = [np.zeros_like(images[:, 0])]
    for place in range(steps):
        expected.append((images[:, place] + expected[-1]) / 2)
    last, returned, _ = traced(images)
    np.testing.assert_array_equal(returned, np.stack(expected[1:], 1))
    np.testing.assert_array_equal(last, expected[-1])
