"""A layer of a user that gates and convolves a sequence."""

import keras
from keras import ops


class ConvModule(keras.layers.Layer):
    def build(self, shape):
        d = shape[-1]
        self.gamma = self.add_weight(shape=(d,), name="gamma")
        self.inner = self.add_weight(shape=(d, 2 * d), name="inner")
        self.kernel = self.add_weight(shape=(3, d, 1), name="kernel")
        self.outer = self.add_weight(shape=(d, d), name="outer")

    def call(self, x):
        mean = ops.mean(x, axis=-1, keepdims=True)
        spread = ops.mean(ops.square(x - mean), axis=-1, keepdims=True)
        h = (x - mean) * ops.rsqrt(spread + 1e-3) * self.gamma
        h = ops.matmul(h, self.inner)
        value, gate = ops.split(h, 2, axis=-1)
        h = value * ops.sigmoid(gate)
        h = ops.depthwise_conv(h, self.kernel, 1, padding="same")
        h = h * ops.sigmoid(1.5 * h)
        return x + 0.5 * ops.matmul(h, self.outer)


def make():
    i = keras.Input((9, 8), name="x")
    x = keras.layers.Dense(8, name="proj")(i)
    return keras.Model(i, keras.layers.Dense(3, name="out")(ConvModule(name="conv")(x)))
