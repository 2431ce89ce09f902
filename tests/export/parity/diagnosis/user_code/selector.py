"""A layer of a user that selects some columns in each of several steps, and adds the results."""

import keras
from keras import layers, ops


def gate_half(h):
    half = h.shape[-1] // 2
    return h[:, :half] * ops.sigmoid(h[:, half:])


class Selector(layers.Layer):
    def __init__(self, steps=4, **kw):
        super().__init__(**kw)
        self.shared = layers.Dense(8, name="shared")
        self.own = [layers.Dense(8, name=f"own_{i}") for i in range(steps)]
        self.scores = [layers.Dense(6, name=f"scores_{i}") for i in range(steps)]

    def build(self, shape):
        self.shared.build((None, 6))
        for own, scores in zip(self.own, self.scores, strict=True):
            own.build((None, 4))
            scores.build((None, 4))

    def call(self, x):
        hint = gate_half(self.shared(x))
        total = 0.0
        for own, scores in zip(self.own, self.scores, strict=True):
            chosen = ops.one_hot(ops.argmax(scores(hint), axis=-1), 6)
            hint = gate_half(own(gate_half(self.shared(x * (1.0 + chosen)))))
            total = total + ops.relu(hint)
        return total


def make():
    x = keras.Input((5,), name="x")
    y = Selector(name="selector")(layers.Dense(6, name="embed")(x))
    return keras.Model(x, layers.Dense(3, name="head")(y))
