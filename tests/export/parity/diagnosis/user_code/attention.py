"""A layer of a user that attends with scaled scores."""

import math

import keras
from keras import ops


class Attend(keras.layers.Layer):
    def __init__(self, heads=4, **kw):
        super().__init__(**kw)
        self.heads = heads

    def build(self, shape):
        d = shape[-1]
        self.q = self.add_weight(shape=(d, d), name="q")
        self.k = self.add_weight(shape=(d, d), name="k")
        self.v = self.add_weight(shape=(d, d), name="v")

    def split(self, x):
        b, t, d = ops.shape(x)
        x = ops.reshape(x, (b, t, self.heads, d // self.heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, x):
        b, t, d = ops.shape(x)
        q = self.split(ops.matmul(x, self.q))
        k = self.split(ops.matmul(x, self.k))
        v = self.split(ops.matmul(x, self.v))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        scores = scores / math.sqrt(d // self.heads)
        weights = ops.softmax(scores, axis=-1)
        out = ops.matmul(weights, v)
        out = ops.transpose(out, (0, 2, 1, 3))
        return ops.reshape(out, (b, t, d)) + x


def make():
    i = keras.Input((6, 16), name="x")
    x = keras.layers.Dense(16, name="proj")(i)
    x = Attend(name="attend")(x)
    return keras.Model(i, keras.layers.Dense(5, name="out")(x))
