"""The marginals of a chain of labels, by a forward and a backward pass."""

import keras
import tensorflow as tf
from keras import layers


class Context(layers.Layer):
    """The last three steps of a sequence side by side."""

    def call(self, x):
        padded = tf.pad(x, [[0, 0], [2, 0], [0, 0]])
        return tf.concat([padded[:, n : n + x.shape[1]] for n in range(3)], axis=-1)


class Chain(layers.Layer):
    def build(self, shape):
        k = shape[-1]
        self.moves = self.add_weight(name="moves", shape=(k, k))
        self.first = self.add_weight(name="first", shape=(k,))

    def forward(self, scores):
        alpha = self.first + scores[:, 0]
        alphas = [alpha]
        for t in range(1, scores.shape[1]):
            alpha = tf.reduce_logsumexp(alpha[:, :, None] + self.moves, axis=1) + scores[:, t]
            alphas.append(alpha)
        return alphas

    def backward(self, scores):
        beta = tf.zeros_like(scores[:, 0])
        betas = [beta]
        for t in reversed(range(1, scores.shape[1])):
            beta = tf.reduce_logsumexp(self.moves + (scores[:, t] + beta)[:, None, :], axis=2)
            betas.insert(0, beta)
        return betas

    def call(self, scores):
        alpha = tf.stack(self.forward(scores), axis=1)
        beta = tf.stack(self.backward(scores), axis=1)
        total = tf.reduce_logsumexp(alpha[:, -1], axis=-1)
        return tf.exp(alpha + beta - total[:, None, None])


def make():
    x = keras.Input((5, 3), name="x")
    y = Context(name="context")(x)
    y = layers.Dense(4, name="scores")(y)
    return keras.Model(x, layers.Dense(2, name="head")(Chain(name="chain")(y)))
