"""The models that are exported, each with an input."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_pe import SinusoidalPositionEncoding


def encoder() -> tuple[keras.Model, Any]:
    """Two layers of a Transformer, and tokens for it."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = SinusoidalPositionEncoding()(keras.layers.Embedding(5000, 256)(tokens))
    for _ in range(2):
        x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(4, 64)(x, x))
        hidden = keras.layers.Dense(1024, activation="relu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(256)(hidden))
    return keras.Model(tokens, x), np.random.default_rng(0).integers(0, 5000, (4, 128)).astype("int32")


def lstm() -> tuple[keras.Model, Any]:
    """Two recurrent layers, and series for them."""
    values = keras.Input((None, 32), name="values")
    x = keras.layers.LSTM(128)(keras.layers.Bidirectional(keras.layers.LSTM(64, return_sequences=True))(values))
    return keras.Model(values, keras.layers.Dense(10)(x)), _normal(4, 128, 32)


def gru() -> tuple[keras.Model, Any]:
    """A recurrent layer of the other kind, which Keras exports as a loop."""
    values = keras.Input((None, 32), name="values")
    return keras.Model(values, keras.layers.Dense(10)(keras.layers.GRU(128)(values))), _normal(4, 128, 32)


def convolutional() -> tuple[keras.Model, Any]:
    """Three convolutions with batch normalization, and images for them."""
    x = values = keras.Input((64, 64, 3), name="values")
    for width in (32, 64, 128):
        x = keras.layers.BatchNormalization()(keras.layers.Conv2D(width, 3, padding="same", activation="relu")(x))
        x = keras.layers.MaxPooling2D()(x)
    return keras.Model(values, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x))), _normal(4, 64, 64, 3)


BUILDERS: dict[str, Callable[[], tuple[keras.Model, Any]]] = {
    each.__name__: each for each in (encoder, lstm, gru, convolutional)
}


def trained(name: str) -> tuple[keras.Model, Any]:
    """Returns a model as if trained, the same in every process: a bias of zeros would be left out of a file."""
    keras.utils.set_random_seed(0)
    model, values = BUILDERS[name]()
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(weight + 0.05 * np.abs(rng.normal(size=weight.shape)))
    model(values)
    return model, values


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")
