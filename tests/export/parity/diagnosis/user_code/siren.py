"""A field over coordinates: Fourier features, and sines that are modulated by a code."""

import math

import keras
from keras import layers, ops


class Features(layers.Layer):
    def __init__(self, count=5, **kw):
        super().__init__(**kw)
        self.count = count

    def build(self, shape):
        self.waves = self.add_weight(name="waves", shape=(shape[-1], self.count), trainable=False)

    def call(self, places):
        angles = 2.0 * math.pi * (places @ self.waves)
        return ops.concatenate([places, ops.cos(angles), ops.sin(angles)], axis=-1)


class Film(layers.Layer):
    def build(self, shape):
        self.width = shape[0][-1]
        self.dense = layers.Dense(2 * self.width, name="dense")
        self.dense.build(shape[1])

    def call(self, inputs):
        x, code = inputs
        scale, shift = ops.split(self.dense(code)[:, None, :], 2, axis=-1)
        return x * (1.0 + scale) + shift


class Sine(layers.Layer):
    def __init__(self, width, omega, **kw):
        super().__init__(**kw)
        self.width, self.omega = width, omega
        self.dense = layers.Dense(width, name="dense")
        self.film = Film(name="film")

    def build(self, shape):
        self.dense.build(shape[0])
        self.film.build([(*shape[0][:-1], self.width), shape[1]])

    def call(self, inputs):
        x, code = inputs
        h = self.film([self.dense(x), code])
        return ops.sin(self.omega * h)


class Field(layers.Layer):
    def __init__(self, width=8, depth=2, **kw):
        super().__init__(**kw)
        self.features = Features(name="features")
        self.first = layers.Dense(width, name="first")
        self.sines = [Sine(width, 1.5, name=f"sine{i}") for i in range(depth)]

    def build(self, shape):
        places, codes = shape
        self.features.build(places)
        self.first.build((*places[:-1], places[-1] + 10))
        for sine in self.sines:
            sine.build([(*places[:-1], 8), (None, codes[-1])])

    def call(self, inputs):
        places, codes = inputs
        h = start = self.first(self.features(places))
        for number, sine in enumerate(self.sines):
            h = sine([h, codes[:, number]])
        return (h + start) / math.sqrt(2.0)


def make():
    places = keras.Input((10, 2), name="places")
    codes = keras.Input((2, 4), name="codes")
    x = Field(name="field")([places, codes])
    return keras.Model([places, codes], layers.Dense(3, activation="sigmoid", name="color")(x))
