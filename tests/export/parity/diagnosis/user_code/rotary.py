"""A layer of a user that turns pairs of channels by positions."""

import keras
from keras import ops


class Rotary(keras.layers.Layer):
    def __init__(self, base=100.0, **kw):
        super().__init__(**kw)
        self.base = base

    def rotate(self, x):
        first = x[..., ::2]
        second = x[..., 1::2]
        turned = ops.stack([-second, first], axis=-1)
        return ops.reshape(turned, ops.shape(x))

    def call(self, x):
        length, width = x.shape[1], x.shape[-1]
        rates = self.base ** (-ops.arange(0, width, 2, dtype="float32") / width)
        angles = ops.arange(length, dtype="float32")[:, None] * rates
        angles = ops.repeat(angles, 2, axis=-1)
        return x * ops.cos(angles) + self.rotate(x) * ops.sin(angles)


def make():
    i = keras.Input((8, 12), name="x")
    x = keras.layers.Dense(12, name="proj")(i)
    return keras.Model(i, keras.layers.Dense(5, name="out")(Rotary(name="rotary")(x)))
