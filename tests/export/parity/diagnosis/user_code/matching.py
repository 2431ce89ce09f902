"""Slots that compete for tokens, and a soft matching of the slots to prototypes."""

import keras
from keras import layers, ops


class Slots(layers.Layer):
    def __init__(self, slots=3, rounds=2, **kw):
        super().__init__(**kw)
        self.slots, self.rounds = slots, rounds

    def build(self, shape):
        d = shape[-1]
        self.start = self.add_weight(name="start", shape=(self.slots, d))
        self.to_q = self.add_weight(name="to_q", shape=(d, d))
        self.to_k = self.add_weight(name="to_k", shape=(d, d))
        self.to_v = self.add_weight(name="to_v", shape=(d, d))
        self.gate = self.add_weight(name="gate", shape=(2 * d, d))

    def attend(self, slots, keys, values):
        logits = ops.einsum("bsd,btd->bst", slots @ self.to_q, keys) * keys.shape[-1] ** -0.5
        share = ops.softmax(logits, axis=1) + 1e-3
        share = share / ops.sum(share, axis=-1, keepdims=True)
        return share @ values

    def call(self, x):
        keys, values = x @ self.to_k, x @ self.to_v
        slots = ops.broadcast_to(self.start, (ops.shape(x)[0], self.slots, x.shape[-1]))
        for _ in range(self.rounds):
            update = self.attend(slots, keys, values)
            gate = ops.sigmoid(ops.concatenate([slots, update], axis=-1) @ self.gate)
            slots = gate * slots + (1.0 - gate) * update
        return slots


class Matching(layers.Layer):
    def __init__(self, rounds=3, temperature=2.0, **kw):
        super().__init__(**kw)
        self.rounds, self.temperature = rounds, temperature

    def build(self, shape):
        self.prototypes = self.add_weight(name="prototypes", shape=(4, shape[-1]))

    def call(self, slots):
        cost = ops.sum(ops.square(slots[:, :, None] - self.prototypes), axis=-1)
        plan = -cost / self.temperature
        for _ in range(self.rounds):
            plan = plan - ops.logsumexp(plan, axis=-1, keepdims=True)
            plan = plan - ops.logsumexp(plan, axis=-2, keepdims=True)
        plan = ops.exp(plan)
        matched = ops.einsum("bsp,pd->bsd", plan, self.prototypes)
        return ops.concatenate([slots - matched, ops.sum(plan * cost, axis=-1, keepdims=True)], axis=-1)


def make():
    x = keras.Input((7, 5), name="x")
    y = layers.Dense(6, activation="tanh", name="before")(x)
    y = Matching(name="matching")(Slots(name="slots")(y))
    return keras.Model(x, layers.Dense(3, name="head")(y))
