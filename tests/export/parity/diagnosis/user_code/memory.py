"""A memory that is addressed by content and by place, and a table with product keys."""

import keras
from keras import layers, ops


def unit(x):
    return x / ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + 1e-4)


class Address(layers.Layer):
    def __init__(self, slots=6, **kw):
        super().__init__(**kw)
        self.slots = slots

    def build(self, shape):
        d = shape[-1]
        sizes = {"key": d, "beta": 1, "gate": 1, "shift": 3, "power": 1}
        self.parts = {name: self.add_weight(name=name, shape=(d, size)) for name, size in sizes.items()}
        self.memory = self.add_weight(name="memory", shape=(self.slots, d))
        self.begin = self.add_weight(name="begin", shape=(self.slots,))

    def move(self, weights, shift):
        moved = 0.0
        for n in range(3):
            moved = moved + ops.roll(weights, n - 1, axis=-1) * shift[:, n : n + 1]
        return moved

    def call(self, x):
        raw = {name: ops.matmul(x, weight) for name, weight in self.parts.items()}
        beta = ops.softplus(raw["beta"])
        gate = ops.sigmoid(raw["gate"])
        shift = ops.softmax(raw["shift"], axis=-1)
        power = 1.0 + ops.softplus(raw["power"])
        near = unit(raw["key"]) @ ops.transpose(unit(self.memory))
        content = ops.softmax(beta * near, axis=-1)
        last, reads = ops.softmax(self.begin)[None], []
        for t in range(x.shape[1]):
            now = gate[:, t] * content[:, t] + (1.0 - gate[:, t]) * last
            now = self.move(now, shift[:, t])
            sharp = ops.power(now, power[:, t])
            last = sharp / ops.sum(sharp, axis=-1, keepdims=True)
            reads.append(last @ self.memory)
        return ops.stack(reads, axis=1)


class ProductKeys(layers.Layer):
    def __init__(self, keys=4, best=3, **kw):
        super().__init__(**kw)
        self.keys, self.best = keys, best

    def build(self, shape):
        half = shape[-1] // 2
        self.left = self.add_weight(name="left", shape=(self.keys, half))
        self.right = self.add_weight(name="right", shape=(self.keys, half))
        self.rows = self.add_weight(name="rows", shape=(self.keys**2, shape[-1]))

    def call(self, x):
        half = x.shape[-1] // 2
        one = ops.einsum("btd,kd->btk", x[..., :half], self.left)
        two = ops.einsum("btd,kd->btk", x[..., half:], self.right)
        scores = one[..., :, None] + two[..., None, :]
        scores = ops.reshape(scores, (-1, x.shape[1], self.keys**2))
        best, where = ops.top_k(scores, self.best)
        found = ops.take(self.rows, where, axis=0)
        return x + ops.sum(ops.softmax(best)[..., None] * found, axis=-2)


def make():
    x = keras.Input((4, 5), name="x")
    y = layers.Dense(6, name="embed")(x)
    y = ProductKeys(name="table")(Address(name="memory")(y))
    return keras.Model(x, layers.Dense(3, name="head")(y))
