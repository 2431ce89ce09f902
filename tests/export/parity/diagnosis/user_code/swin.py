"""A layer of a user that attends in shifted windows."""

import keras
from keras import ops


class Windows(keras.layers.Layer):
    def __init__(self, size=2, shift=1, **kw):
        super().__init__(**kw)
        self.size, self.shift = size, shift

    def build(self, shape):
        self.bias = self.add_weight(shape=(self.size**2, self.size**2), name="bias")

    def call(self, x):
        b, h, w, c = x.shape[0] or ops.shape(x)[0], x.shape[1], x.shape[2], x.shape[3]
        s = self.size
        y = ops.roll(x, (-self.shift, -self.shift), axis=(1, 2))
        y = ops.reshape(y, (b, h // s, s, w // s, s, c))
        y = ops.transpose(y, (0, 1, 3, 2, 4, 5))
        y = ops.reshape(y, (b, h // s * (w // s), s * s, c))
        scores = ops.matmul(y, ops.swapaxes(y, -1, -2)) * c**-0.5
        scores = scores + self.bias
        y = ops.matmul(ops.softmax(scores), y)
        y = ops.reshape(y, (b, h // s, w // s, s, s, c))
        y = ops.transpose(y, (0, 1, 3, 2, 4, 5))
        y = ops.reshape(y, (b, h, w, c))
        y = ops.roll(y, (self.shift, self.shift), axis=(1, 2))
        return x + y


def make():
    i = keras.Input((6, 6, 3), name="x")
    x = keras.layers.Conv2D(4, 1, name="proj")(i)
    return keras.Model(i, keras.layers.Conv2D(3, 1, name="out")(Windows(name="windows")(x)))
