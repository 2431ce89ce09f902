"""A layer of a user that has sublayers and computes between them."""

import keras
from keras import ops


class Block(keras.layers.Layer):
    def __init__(self, **kw):
        super().__init__(**kw)
        self.norm = keras.layers.LayerNormalization(name="norm")
        self.first = keras.layers.Dense(12, name="first")
        self.second = keras.layers.Dense(6, name="second")

    def build(self, shape):
        self.norm.build(shape)
        self.first.build(shape)
        self.second.build((*shape[:-1], 12))

    def call(self, x):
        h = self.norm(x)
        h = self.first(h)
        h = ops.square(ops.relu(h))
        h = h * 0.25
        h = self.second(h)
        return ops.tanh(h) + x


def make():
    i = keras.Input((7, 6), name="x")
    x = keras.layers.Dense(6, name="proj")(i)
    x = Block(name="one")(x)
    x = Block(name="two")(x)
    return keras.Model(i, keras.layers.Dense(3, name="out")(x))
