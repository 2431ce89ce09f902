"""A layer of a user that pools a sequence by learned queries."""

import keras
import tensorflow as tf


class Pool(keras.layers.Layer):
    def build(self, shape):
        self.queries = self.add_weight(shape=(4, shape[-1]), name="queries")

    def call(self, x):
        norm = tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True) + 1e-6)
        keys = x / norm
        scores = tf.einsum("qd,btd->bqt", self.queries, keys) * 3.0
        weights = tf.nn.softmax(scores, axis=-1)
        pooled = tf.matmul(weights, x)
        flat = tf.reshape(pooled, (-1, 4 * x.shape[-1]))
        return tf.concat([flat, tf.reduce_max(x, axis=1)], axis=-1)


def make():
    i = keras.Input((9, 8), name="x")
    x = keras.layers.Dense(6, name="proj")(i)
    return keras.Model(i, keras.layers.Dense(3, name="out")(Pool(name="pool")(x)))
