"""Capsules with dynamic routing."""

import keras
from keras import layers, ops


class Capsules(layers.Layer):
    def __init__(self, count, width, rounds=2, **options):
        super().__init__(**options)
        self.count, self.width, self.rounds = count, width, rounds

    def build(self, shape):
        self.maps = self.add_weight(name="maps", shape=(shape[1], shape[2], self.count, self.width))

    def squash(self, x):
        norm = ops.sum(ops.square(x), axis=-1, keepdims=True)
        return norm / (1.0 + norm) * x / ops.sqrt(norm + 1e-4)

    def call(self, x):
        votes = ops.einsum("bid,idcw->bicw", x, self.maps)
        logits = ops.zeros_like(votes[..., 0])
        for step in range(self.rounds):
            share = ops.softmax(logits, axis=-1)
            made = self.squash(ops.sum(share[..., None] * votes, axis=1))
            if step + 1 < self.rounds:
                logits = logits + ops.sum(votes * made[:, None], axis=-1)
        return ops.sqrt(ops.sum(ops.square(made), axis=-1) + 1e-6)


def make():
    x = keras.Input((6, 4), name="x")
    y = layers.Dense(5, activation="tanh", name="before")(x)
    y = Capsules(3, 4, name="capsules")(y)
    return keras.Model(x, layers.Dense(2, name="head")(y))
