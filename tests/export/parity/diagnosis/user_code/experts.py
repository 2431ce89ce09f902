"""A layer of a user that mixes experts by gates."""

import keras
from keras import ops


class Experts(keras.layers.Layer):
    def __init__(self, experts=4, **kw):
        super().__init__(**kw)
        self.experts = experts

    def build(self, shape):
        d = shape[-1]
        self.router = self.add_weight(shape=(d, self.experts), name="router")
        self.up = self.add_weight(shape=(self.experts, d, 8), name="up")
        self.down = self.add_weight(shape=(self.experts, 8, d), name="down")

    def call(self, x):
        logits = ops.matmul(x, self.router)
        chances = ops.softmax(logits)
        best, index = ops.top_k(chances, 2)
        best = best / ops.sum(best, axis=-1, keepdims=True)
        chosen = ops.one_hot(index, self.experts)
        gate = ops.sum(chosen * best[..., None], axis=-2)
        hidden = ops.einsum("btd,edh->bteh", x, self.up)
        hidden = ops.silu(hidden)
        out = ops.einsum("bteh,ehd->bted", hidden, self.down)
        return ops.sum(out * gate[..., None], axis=2) + x


def make():
    i = keras.Input((6, 8), name="x")
    x = keras.layers.Dense(8, name="proj")(i)
    return keras.Model(i, keras.layers.Dense(3, name="out")(Experts(name="experts")(x)))
