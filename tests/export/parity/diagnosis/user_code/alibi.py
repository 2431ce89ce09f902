"""Causal attention with linear biases, and a head that mixes softmaxes."""

import keras
from keras import layers, ops


def slopes(heads):
    return [2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)]


class Biased(layers.Layer):
    def __init__(self, heads=4, **kw):
        super().__init__(**kw)
        self.heads = heads

    def build(self, shape):
        self.length, self.width = shape[1], shape[2]
        self.inner = layers.Dense(3 * self.width, use_bias=False, name="inner")
        self.outer = layers.Dense(self.width, name="outer")
        self.inner.build(shape)
        self.outer.build(shape)

    def call(self, x):
        size = self.width // self.heads
        h = ops.reshape(self.inner(x), (-1, self.length, 3, self.heads, size))
        h = ops.transpose(h, (2, 0, 3, 1, 4))
        q, k, v = h[0], h[1], h[2]
        scores = ops.einsum("bhid,bhjd->bhij", q, k) / size**0.5
        places = ops.arange(self.length, dtype="float32")
        gap = places[None, :] - places[:, None]
        scores = scores + ops.convert_to_tensor(slopes(self.heads))[:, None, None] * gap
        scores = ops.where(gap > 0, -1e9, scores)
        seen = ops.einsum("bhij,bhjd->bihd", ops.softmax(scores), v)
        return x + self.outer(ops.reshape(seen, (-1, self.length, self.width)))


class Mixture(layers.Layer):
    """A mixture of softmaxes, which has a higher rank than one."""

    def __init__(self, parts=3, words=6, **kw):
        super().__init__(**kw)
        self.parts, self.words = parts, words

    def build(self, shape):
        self.length, self.width = shape[1], shape[2]
        self.prior = layers.Dense(self.parts, name="prior")
        self.latent = layers.Dense(self.parts * self.width, name="latent")
        self.words_of = layers.Dense(self.words, name="words")
        self.prior.build(shape)
        self.latent.build(shape)
        self.words_of.build(shape)

    def call(self, x):
        prior = ops.softmax(self.prior(x), axis=-1)
        latent = ops.tanh(self.latent(x))
        latent = ops.reshape(latent, (-1, self.length, self.parts, self.width))
        chances = ops.softmax(self.words_of(latent), axis=-1)
        mixed = ops.sum(prior[..., None] * chances, axis=2)
        return ops.log(mixed + 1e-6)


def make():
    i = keras.Input((6, 5), name="x")
    x = layers.Dense(8, name="proj")(i)
    x = Biased(name="attend")(x)
    return keras.Model(i, Mixture(name="mixture")(x))
