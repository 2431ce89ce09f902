"""A layer of a user that scales and shifts an image by a condition."""

import keras
from keras import ops


class Conditioned(keras.layers.Layer):
    def build(self, shape):
        c = shape[0][-1]
        self.conv = keras.layers.Conv2D(c, 3, padding="same", name="conv")
        self.dense = keras.layers.Dense(2 * c, name="dense")
        self.conv.build(shape[0])
        self.dense.build(shape[1])

    def call(self, inputs):
        image, condition = inputs
        mean = ops.mean(image, axis=(1, 2), keepdims=True)
        variance = ops.var(image, axis=(1, 2), keepdims=True)
        x = (image - mean) / ops.sqrt(variance + 1e-2)
        scale, shift = ops.split(self.dense(condition), 2, axis=-1)
        x = x * (1 + scale[:, None, None, :])
        x = x + shift[:, None, None, :]
        x = ops.silu(x)
        return image + self.conv(x)


def make():
    i = keras.Input((6, 6, 4), name="image")
    c = keras.Input((5,), name="condition")
    x = keras.layers.Conv2D(8, 3, padding="same", name="stem")(i)
    return keras.Model([i, c], keras.layers.Conv2D(2, 1, name="out")(Conditioned(name="block")([x, c])))
