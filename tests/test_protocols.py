"""Objects of Keras, its backend and NumPy satisfy the types of the public functions."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import SinusoidalPositionEncoding
from keras_pe.protocols import Layer, Model, Tensor


class Subclassed(keras.Model):
    """A model without a graph."""

    def call(self, inputs):
        return inputs


INPUTS = keras.Input((4,))
MODELS = [keras.Model(INPUTS, INPUTS), keras.Sequential([keras.layers.Dense(2)]), Subclassed()]


@pytest.mark.parametrize("model", MODELS, ids=["functional", "sequential", "subclassed"])
def test_every_kind_of_model_is_a_model_and_a_layer(model):
    assert isinstance(model, Model)
    assert isinstance(model, Layer)


def test_a_layer_is_no_model_and_a_path_is_neither():
    assert isinstance(SinusoidalPositionEncoding(), Layer)
    assert not isinstance(SinusoidalPositionEncoding(), Model)
    assert not isinstance("model.keras", Layer)


@pytest.mark.parametrize("tensor", [INPUTS, ops.ones((2,)), np.ones(2), keras.Variable([1.0])])
def test_arrays_tensors_and_variables_are_tensors(tensor):
    assert isinstance(tensor, Tensor)
    assert not isinstance([1.0], Tensor)
