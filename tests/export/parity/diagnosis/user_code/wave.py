"""Residual blocks of dilated causal convolutions with a condition, as for sound."""

import keras
from keras import layers, ops


def causal(x, size, rate):
    """Pads a sequence so that a convolution looks only back."""
    return ops.pad(x, [[0, 0], [(size - 1) * rate, 0], [0, 0]])


class Gated(layers.Layer):
    def __init__(self, channels, rate, **kw):
        super().__init__(**kw)
        self.channels, self.rate = channels, rate
        self.dilated = layers.Conv1D(2 * channels, 2, dilation_rate=rate, name="dilated")
        self.speaker = layers.Dense(2 * channels, use_bias=False, name="speaker")

    def build(self, shape):
        self.dilated.build((None, None, self.channels))
        self.speaker.build(shape[1])

    def call(self, inputs):
        x, who = inputs
        h = self.dilated(causal(x, 2, self.rate))
        h = h + self.speaker(who)[:, None, :]
        value, gate = h[..., : self.channels], h[..., self.channels :]
        return ops.tanh(value) * ops.sigmoid(gate)


class Residual(layers.Layer):
    def __init__(self, channels, rate, **kw):
        super().__init__(**kw)
        self.channels = channels
        self.gated = Gated(channels, rate, name="gated")
        self.out = layers.Conv1D(channels, 1, name="out")
        self.skip = layers.Conv1D(channels, 1, name="skip")

    def build(self, shape):
        self.gated.build(shape)
        self.out.build(shape[0])
        self.skip.build(shape[0])

    def call(self, inputs):
        x, who = inputs
        h = self.gated([x, who])
        return (x + self.out(h)) * 0.5**0.5, self.skip(h)


class Stack(layers.Layer):
    def __init__(self, channels=4, blocks=3, **kw):
        super().__init__(**kw)
        self.blocks = [Residual(channels, 2**i, name=f"block{i}") for i in range(blocks)]

    def build(self, shape):
        for block in self.blocks:
            block.build(shape)

    def call(self, inputs):
        x, who = inputs
        total = 0.0
        for block in self.blocks:
            x, skip = block([x, who])
            total = total + skip
        total = total / len(self.blocks) ** 0.5
        return ops.relu(total)


def make():
    sound = keras.Input((12, 2), name="sound")
    who = keras.Input((3,), name="who")
    x = layers.Conv1D(4, 1, name="front")(sound)
    x = Stack(name="stack")([x, who])
    return keras.Model([sound, who], layers.Conv1D(5, 1, name="logits")(x))
