"""A layer of a user that mixes tokens by pairwise scores."""

import keras
from keras import ops


class Heads(keras.layers.Layer):
    def build(self, shape):
        d = shape[-1]
        self.start = self.add_weight(shape=(d, d), name="start")
        self.end = self.add_weight(shape=(d, d), name="end")
        self.mix = self.add_weight(shape=(d,), name="mix")

    def call(self, x):
        s = ops.tanh(ops.matmul(x, self.start))
        e = ops.tanh(ops.matmul(x, self.end))
        pairs = ops.einsum("bid,bjd->bij", s, e)
        width = x.shape[-1]
        pairs = pairs / width**0.5
        steps = ops.arange(x.shape[1], dtype="float32")
        gap = ops.abs(steps[:, None] - steps[None, :])
        pairs = pairs - 0.1 * gap
        weights = ops.exp(pairs - ops.max(pairs, axis=-1, keepdims=True))
        weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        mixed = ops.matmul(weights, x)
        gate = ops.sigmoid(ops.sum(mixed * self.mix, axis=-1, keepdims=True))
        return gate * mixed + (1 - gate) * x


def make():
    i = keras.Input((7, 6), name="x")
    x = keras.layers.Dense(6, name="proj")(i)
    return keras.Model(i, keras.layers.Dense(3, name="out")(Heads(name="heads")(x)))
