"""Two codebooks, the second for the rest of the first, which share a method."""

import keras
from keras import layers, ops


class ResidualCodes(layers.Layer):
    def build(self, shape):
        self.coarse = self.add_weight(name="coarse", shape=(6, shape[-1]))
        self.fine = self.add_weight(name="fine", shape=(6, shape[-1]))

    def nearest(self, x, book):
        gaps = ops.expand_dims(x, -2) - book
        far = ops.sum(ops.square(gaps), axis=-1)
        return ops.take(book, ops.argmin(far, axis=-1), axis=0), ops.min(far, axis=-1)

    def call(self, x):
        unit = x / ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + 1e-3)
        first, off = self.nearest(unit, self.coarse)
        second, left = self.nearest(2.0 * (unit - first), self.fine)
        made = first + 0.5 * second
        return ops.concatenate([made, ops.sqrt(off + 0.25 * left)[..., None], 0.3 * (x - made)], axis=-1)


def make():
    x = keras.Input((4, 5), name="x")
    y = ResidualCodes(name="codes")(layers.Dense(6, name="encode")(x))
    return keras.Model(x, layers.Dense(3, name="head")(y))
