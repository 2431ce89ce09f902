"""State is left alone: calls see what earlier ones assigned, and the model never does."""

import keras
import numpy as np

from keras_pe.export.model.signature.model_signature import model_signature
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.runtimes.keras import KerasRuntime
from tests.export.counting import Counting


def counting() -> keras.Model:
    inputs = keras.Input((4,), name="x")
    return keras.Model(inputs, Counting(name="y")(inputs))


def test_a_sequence_of_calls_counts_on_and_is_forgotten_at_its_end():
    model = counting()
    with state_left_alone():
        assert [float(model(np.zeros((1, 4)))[0, 0]) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert float(model.weights[0].numpy()) == 0.0


def test_a_context_can_start_with_another_value():
    model = counting()
    with state_left_alone([(model.weights[0], np.float32(7.0))]):
        assert float(model(np.zeros((1, 4)))[0, 0]) == 8.0


def test_the_compiled_model_counts_on_from_run_to_run_and_leaves_the_model_as_it_was():
    model = counting()
    runtime = KerasRuntime(model, model_signature(model))
    x = {"x": np.zeros((1, 4), np.float32)}
    assert [float(runtime.run(x)["y"][0, 0]) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert float(model.weights[0].numpy()) == 0.0
