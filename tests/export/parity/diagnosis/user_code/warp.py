"""A spatial transformer: an affine map of places, and bilinear samples."""

import keras
from keras import layers, ops


class Warp(layers.Layer):
    def call(self, image, theta):
        h, w, c = image.shape[1:]
        ys, xs = ops.linspace(-1.0, 1.0, h), ops.linspace(-1.0, 1.0, w)
        xs, ys = ops.meshgrid(xs, ys)
        places = ops.stack([ops.reshape(xs, (-1,)), ops.reshape(ys, (-1,)), ops.ones((h * w,))], axis=0)
        moved = ops.matmul(ops.reshape(theta, (-1, 2, 3)), places)
        x = (moved[:, 0] + 1.0) * (w - 1) / 2.0
        y = (moved[:, 1] + 1.0) * (h - 1) / 2.0
        x0, y0 = ops.floor(x), ops.floor(y)
        fx, fy = x - x0, y - y0
        flat = ops.reshape(image, (-1, h * w, c))

        def at(row, column):
            row = ops.clip(row, 0, h - 1)
            column = ops.clip(column, 0, w - 1)
            index = ops.cast(row * w + column, "int32")
            return ops.take_along_axis(flat, index[..., None], axis=1)

        top = at(y0, x0) * (1.0 - fx)[..., None] + at(y0, x0 + 1) * fx[..., None]
        low = at(y0 + 1, x0) * (1.0 - fx)[..., None] + at(y0 + 1, x0 + 1) * fx[..., None]
        out = top * (1.0 - fy)[..., None] + low * fy[..., None]
        return ops.reshape(out, (-1, h, w, c))


def make():
    x = keras.Input((5, 6, 2), name="x")
    image = layers.Conv2D(3, 3, padding="same", name="features")(x)
    theta = layers.Dense(6, name="theta")(layers.GlobalAveragePooling2D(name="pool")(x))
    y = Warp(name="warp")(image, theta)
    y = layers.Conv2D(2, 3, name="after")(y)
    return keras.Model(x, layers.Dense(2, name="head")(layers.Flatten(name="flat")(y)))
