"""A layer of a user that attends along the edges of a graph."""

import keras
from keras import ops


class GraphAttention(keras.layers.Layer):
    def __init__(self, units=8, **kw):
        super().__init__(**kw)
        self.units = units

    def build(self, shape):
        d = shape[0][-1]
        self.w = self.add_weight(shape=(d, self.units), name="w")
        self.a = self.add_weight(shape=(self.units,), name="a")
        self.b = self.add_weight(shape=(self.units,), name="b")

    def call(self, inputs):
        nodes, edges = inputs
        h = ops.matmul(nodes, self.w)
        left = ops.sum(h * self.a, axis=-1)
        right = ops.sum(h * self.b, axis=-1)
        scores = left[:, :, None] + right[:, None, :]
        scores = ops.leaky_relu(scores, negative_slope=0.2)
        scores = ops.where(edges > 0.5, scores, -1e4)
        weights = ops.softmax(scores, axis=-1)
        out = ops.matmul(weights, h)
        degree = ops.sum(edges, axis=-1, keepdims=True)
        return ops.elu(out) / ops.sqrt(ops.square(degree) + 1.0)


def make():
    n = keras.Input((7, 5), name="nodes")
    e = keras.Input((7, 7), name="edges")
    x = keras.layers.Dense(6, name="proj")(n)
    return keras.Model([n, e], keras.layers.Dense(3, name="out")(GraphAttention(name="gat")([x, e])))
