import keras
import tensorflow as tf
from keras import layers, ops


class Peaks(layers.Layer):
    def __init__(self, count=5, stride=4.0, **kw):
        super().__init__(**kw)
        self.count = count
        self.stride = stride

    def call(self, heat, shift):
        _, rows, columns, kinds = heat.shape
        largest = tf.nn.max_pool2d(heat, 3, strides=1, padding="SAME")
        alone = ops.where(heat >= largest, heat, 0.0)
        scores, place = tf.math.top_k(ops.reshape(alone, (-1, rows * columns * kinds)), k=self.count)
        cell = place // kinds
        kind = place % kinds
        row = ops.cast(cell // columns, "float32")
        column = ops.cast(cell % columns, "float32")
        moved = tf.gather(ops.reshape(shift, (-1, rows * columns, 2)), cell, batch_dims=1)
        y = (row + moved[..., 0]) * self.stride
        x = (column + moved[..., 1]) * self.stride
        return ops.stack([y, x, scores, ops.cast(kind, "float32")], axis=-1)


def make():
    i = keras.Input((8, 6, 3), name="x")
    x = keras.layers.Conv2D(6, 3, padding="same", activation="relu", name="features")(i)
    heat = keras.layers.Conv2D(2, 1, name="heat")(x)
    shift = keras.layers.Conv2D(2, 1, name="shift")(x)
    return keras.Model(i, Peaks(name="peaks")(heat, shift))
