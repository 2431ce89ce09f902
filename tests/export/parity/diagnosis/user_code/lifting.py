"""A wavelet transform by lifting that drops small details, and a pool over four rotations."""

import keras
from keras import layers, ops


def lift(x):
    """Splits rows into a smooth part and details."""
    even, odd = x[:, ::2], x[:, 1::2]
    after = ops.concatenate([even[:, 1:], even[:, -1:]], axis=1)
    detail = odd - 0.5 * (even + after)
    before = ops.concatenate([detail[:, :1], detail[:, :-1]], axis=1)
    return even + 0.25 * (before + detail), detail


def merge(smooth, detail):
    """Inverts `lift`."""
    before = ops.concatenate([detail[:, :1], detail[:, :-1]], axis=1)
    even = smooth - 0.25 * (before + detail)
    after = ops.concatenate([even[:, 1:], even[:, -1:]], axis=1)
    odd = detail + 0.5 * (even + after)
    both = ops.stack([even, odd], axis=2)
    return ops.reshape(both, (-1, 2 * even.shape[1], *even.shape[2:]))


def shrink(x, limit):
    return ops.sign(x) * ops.maximum(ops.abs(x) - limit, 0.0)


class Denoise(layers.Layer):
    def __init__(self, levels=2, limit=0.2, **kw):
        super().__init__(**kw)
        self.levels, self.limit = levels, limit

    def call(self, x):
        details = []
        for _ in range(self.levels):
            x, detail = lift(x)
            details.append(shrink(detail, self.limit))
        for detail in reversed(details):
            x = merge(x, detail)
        return x


class RotationPool(layers.Layer):
    def __init__(self, filters=3, sharp=2.0, **kw):
        super().__init__(**kw)
        self.filters, self.sharp = filters, sharp

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(3, 3, shape[-1], self.filters))

    def turn(self, x, times):
        for _ in range(times):
            x = ops.flip(ops.transpose(x, (0, 2, 1, 3)), axis=1)
        return x

    def call(self, x):
        seen = []
        for k in range(4):
            y = ops.conv(self.turn(x, k), self.kernel, padding="same")
            seen.append(self.turn(y, (4 - k) % 4))
        seen = ops.stack(seen, axis=-1)
        return ops.logsumexp(self.sharp * seen, axis=-1) / self.sharp


def make():
    x = keras.Input((8, 8, 2), name="x")
    y = layers.Conv2D(2, 1, name="mix")(x)
    y = RotationPool(name="pool")(Denoise(name="denoise")(y))
    return keras.Model(x, layers.Conv2D(2, 1, name="out")(y))
