"""The multiplicative update of pairs by triangles, and a retention with decay."""

import keras
from keras import layers, ops


class Triangle(layers.Layer):
    def build(self, shape):
        d = shape[-1]
        self.left = self.add_weight(name="left", shape=(d, d))
        self.right = self.add_weight(name="right", shape=(d, d))
        self.gate = self.add_weight(name="gate", shape=(d, d))

    def call(self, pairs):
        left = ops.matmul(pairs, self.left)
        right = ops.matmul(pairs, self.right) * ops.sigmoid(ops.matmul(pairs, self.gate))
        both = ops.einsum("bikc,bjkc->bijc", left, right)
        centered = both - ops.mean(both, axis=-1, keepdims=True)
        return pairs + centered / (ops.std(both, axis=-1, keepdims=True) + 1e-2)


class Retention(layers.Layer):
    def __init__(self, gamma=0.8, **options):
        super().__init__(**options)
        self.gamma = gamma

    def call(self, q, k, v):
        length = q.shape[1]
        place = ops.arange(length, dtype="float32")
        apart = place[:, None] - place[None, :]
        decay = ops.where(apart >= 0, ops.power(self.gamma, ops.maximum(apart, 0.0)), 0.0)
        scores = ops.matmul(q, ops.transpose(k, (0, 2, 1))) * decay
        scores = scores / ops.maximum(ops.abs(ops.sum(scores, axis=-1, keepdims=True)), 1.0)
        return ops.matmul(scores, v)


def make():
    x = keras.Input((4, 5), name="x")
    q, k, v = (layers.Dense(4, name=name)(x) for name in ("q", "k", "v"))
    y = Retention(name="retention")(q, k, v)
    outer = layers.Lambda(lambda y: y[:, :, None, :] * y[:, None, :, :] + y[:, :, None, :], name="outer")(y)
    y = Triangle(name="triangle")(outer)
    return keras.Model(x, layers.Dense(2, name="head")(y))
