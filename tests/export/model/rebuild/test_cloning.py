"""The same model again in another precision, whatever its layers' code refers to."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe.export.model.rebuild import clone_with, with_dtype

FACTOR = 3.0


def triple(x):
    return ops.multiply(x, FACTOR)


def test_functions_keep_the_names_that_they_were_written_among() -> None:
    x = keras.Input((4,))
    y = keras.layers.Lambda(lambda x: ops.square(x) * FACTOR, output_shape=lambda shape: shape)(x)
    y = keras.layers.Lambda(triple)(y)
    model = keras.Sequential([keras.Input((4,)), keras.Model(x, y), keras.layers.Dense(2)])
    again = with_dtype(model, "float64")
    values = np.random.default_rng(0).normal(size=(3, 4))
    kernel, bias = (np.asarray(weight, "float64") for weight in model.weights)
    # Four products and sums of values below 100 in float64.
    np.testing.assert_allclose(again(values), 9 * values**2 @ kernel + bias, rtol=1e-13, atol=1e-13)


def test_a_layer_and_an_operation_of_one_name_stay_apart() -> None:
    x = keras.Input((4,))
    model = keras.Model(x, keras.layers.Add()([x, x + 3.0]))
    values = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_allclose(with_dtype(model, "float64")(values), 2 * values + 3, rtol=1e-15)


def test_a_model_writes_its_code_again_afterwards() -> None:
    layer = keras.layers.Lambda(lambda x: x)
    model = keras.Sequential([keras.Input((4,)), layer])
    with_dtype(model, "float64")
    assert layer.get_config()["function"]["class_name"] == "__lambda__"


def test_a_warning_is_no_refusal_though_it_be_an_error_elsewhere() -> None:
    class Whimsical(keras.layers.Dense):
        def build(self, input_shape: tuple[int | None, ...]) -> None:
            warnings.warn("built on a whim", UserWarning, stacklevel=2)
            super().build(input_shape)

    with pytest.warns(UserWarning, match="whim"):
        model = keras.Sequential([keras.Input((4,)), Whimsical(3)])
    values = np.random.default_rng(0).normal(size=(3, 4))
    assert with_dtype(model, "float64")(values).dtype == "float64"


def test_a_layer_that_cannot_be_made_again_is_the_reason() -> None:
    class Stubborn(keras.layers.Layer):
        def __init__(self, size: int) -> None:
            super().__init__()

    model = keras.Sequential([keras.Input((4,)), Stubborn(3)])
    with pytest.raises(ValueError, match=r"made again from its configuration: .*Stubborn.* unexpected keyword"):
        with_dtype(model, "float64")


def _factor(number: float) -> keras.Layer:
    class Factor(keras.layers.Layer):
        def call(self, x):
            return number * x

    return Factor(name=f"times_{number:.0f}")


def test_layers_whose_classes_have_one_name_keep_their_own() -> None:
    x = keras.Input((3,))
    model = keras.Model(x, _factor(5.0)(_factor(3.0)(x)))
    again = clone_with(model, lambda config: None)
    assert float(again(np.ones((1, 3)))[0, 0]) == 15.0
