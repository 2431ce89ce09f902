"""Volume rendering of samples along rays."""

import keras
import numpy as np
from keras import layers, ops


class Waves(layers.Layer):
    def call(self, x):
        bands = ops.convert_to_tensor(2.0 ** np.arange(3, dtype="float32"))
        angles = x[..., None] * bands
        waves = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
        return ops.reshape(waves, (-1, x.shape[1], x.shape[2] * 6))


class Render(layers.Layer):
    def __init__(self, near=1.0, far=3.0, **options):
        super().__init__(**options)
        self.near, self.far = near, far

    def call(self, x):
        count = x.shape[1]
        depths = ops.linspace(self.near, self.far, count)
        gap = (self.far - self.near) / (count - 1)
        density = ops.relu(x[..., 3])
        color = ops.sigmoid(x[..., :3])
        alpha = 1.0 - ops.exp(-density * gap)
        clear = ops.cumprod(1.0 - alpha + 1e-6, axis=1)
        clear = ops.concatenate([ops.ones_like(clear[:, :1]), clear[:, :-1]], axis=1)
        weight = alpha * clear
        seen = ops.sum(weight[..., None] * color, axis=1)
        depth = ops.sum(weight * depths, axis=1, keepdims=True)
        behind = 1.0 - ops.sum(weight, axis=1, keepdims=True)
        return ops.concatenate([seen + behind, depth], axis=-1)


def make():
    x = keras.Input((6, 3), name="x")
    y = Waves(name="waves")(x)
    y = layers.Dense(8, activation="relu", name="hidden")(y)
    y = Render(name="render")(layers.Dense(4, name="field")(y))
    return keras.Model(x, layers.Dense(2, name="head")(y))
