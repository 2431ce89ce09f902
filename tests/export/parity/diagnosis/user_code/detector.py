"""A layer of a user that decodes boxes by a grid, anchors and squared sizes."""

import keras
from keras import ops


class Decode(keras.layers.Layer):
    def __init__(self, cells=4, anchors=((1.0, 2.0), (3.0, 1.5)), **kw):
        super().__init__(**kw)
        self.cells, self.anchors = cells, anchors

    def call(self, x):
        n = ops.shape(x)[0]
        x = ops.reshape(x, (n, self.cells, self.cells, len(self.anchors), 6))
        centers = ops.sigmoid(x[..., :2])
        rows = ops.arange(self.cells, dtype="float32")
        grid = ops.stack(ops.meshgrid(rows, rows), axis=-1)
        centers = (centers + grid[None, :, :, None, :]) / self.cells
        size = x[..., 2:4]
        size = ops.square(size) * ops.convert_to_tensor(self.anchors)
        score = ops.sigmoid(x[..., 4:5])
        kind = ops.sigmoid(x[..., 5:])
        low = centers - size / 2
        high = centers + size / 2
        return ops.concatenate([low, high, score * kind], axis=-1)


def make():
    i = keras.Input((4, 4, 3), name="image")
    x = keras.layers.Conv2D(12, 3, padding="same", name="head")(i)
    return keras.Model(i, Decode(name="decode")(x))
