"""A Kalman filter of a place and a speed for each channel, with learned noises."""

import keras
from keras import layers, ops


def predict(belief, step, noise):
    """Moves a belief by one step of constant speed."""
    place, speed = belief["place"], belief["speed"]
    pp, ps, ss = belief["pp"], belief["ps"], belief["ss"]
    return {
        "place": place + step * speed,
        "speed": speed,
        "pp": pp + 2.0 * step * ps + step**2 * ss + noise,
        "ps": ps + step * ss,
        "ss": ss + noise,
    }


def correct(belief, seen, noise):
    """Weighs a belief and a measurement."""
    spread = belief["pp"] + noise
    gain, turn = belief["pp"] / spread, belief["ps"] / spread
    off = seen - belief["place"]
    return {
        "place": belief["place"] + gain * off,
        "speed": belief["speed"] + turn * off,
        "pp": (1.0 - gain) * belief["pp"],
        "ps": (1.0 - gain) * belief["ps"],
        "ss": belief["ss"] - turn * belief["ps"],
    }


class Filter(layers.Layer):
    def __init__(self, step=0.5, **kw):
        super().__init__(**kw)
        self.step = step

    def build(self, shape):
        self.process = self.add_weight(name="process", shape=(shape[-1],))
        self.measure = self.add_weight(name="measure", shape=(shape[-1],))

    def call(self, x):
        q = ops.softplus(self.process)
        r = ops.softplus(self.measure) + 0.1
        first = x[:, 0]
        zero = ops.zeros_like(first)
        belief = {"place": first, "speed": zero, "pp": zero + 1.0, "ps": zero, "ss": zero + 1.0}
        track = [first]
        for number in range(1, x.shape[1]):
            belief = predict(belief, self.step, q)
            belief = correct(belief, x[:, number], r)
            track.append(belief["place"])
        smooth = ops.stack(track, axis=1)
        return ops.concatenate([smooth, x - smooth], axis=-1)


def make():
    x = keras.Input((5, 4), name="x")
    y = layers.Dense(3, name="sensor")(x)
    y = Filter(name="filter")(y)
    return keras.Model(x, layers.Dense(2, name="head")(y))
