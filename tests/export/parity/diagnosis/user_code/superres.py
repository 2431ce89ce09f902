"""A network for larger images: blocks with squeeze and excitation, and a pixel shuffle."""

import keras
import tensorflow as tf
from keras import layers


class Excite(layers.Layer):
    def build(self, shape):
        c = shape[-1]
        self.down = self.add_weight(name="down", shape=(c, c // 2))
        self.up = self.add_weight(name="up", shape=(c // 2, c))
        self.bias = self.add_weight(name="bias", shape=(c,))

    def call(self, x):
        pooled = tf.reduce_mean(x, axis=[1, 2])
        hidden = tf.nn.relu(tf.matmul(pooled, self.down))
        logits = tf.matmul(hidden, self.up) + self.bias
        gate = tf.clip_by_value(logits / 6.0 + 0.5, 0.0, 1.0)
        return x * gate[:, None, None, :]


class Block(layers.Layer):
    def build(self, shape):
        self.conv = layers.Conv2D(shape[-1], 3, padding="same", name="conv")
        self.excite = Excite(name="excite")
        self.conv.build(shape)
        self.excite.build(shape)

    def call(self, x):
        h = tf.nn.leaky_relu(self.conv(x), alpha=0.2)
        return x + 0.2 * self.excite(h)


class Shuffle(layers.Layer):
    def __init__(self, factor=2, **kw):
        super().__init__(**kw)
        self.factor = factor

    def call(self, x):
        h, w, c = x.shape[1:]
        r = self.factor
        x = tf.reshape(x, (-1, h, w, r, r, c // r**2))
        x = tf.transpose(x, (0, 1, 3, 2, 4, 5))
        return tf.reshape(x, (-1, h * r, w * r, c // r**2))


class Upscale(layers.Layer):
    def __init__(self, blocks=2, **kw):
        super().__init__(**kw)
        self.blocks = [Block(name=f"block{number}") for number in range(blocks)]
        self.expand = layers.Conv2D(12, 3, padding="same", name="expand")
        self.shuffle = Shuffle(name="shuffle")

    def build(self, shape):
        for block in self.blocks:
            block.build(shape)
        self.expand.build(shape)

    def call(self, image):
        x = image
        for block in self.blocks:
            x = block(x)
        x = x + image
        big = tf.tanh(self.shuffle(self.expand(x)))
        rough = tf.repeat(tf.repeat(image[..., :3], 2, axis=1), 2, axis=2)
        return big + 0.5 * rough


def make():
    image = keras.Input((5, 4, 3), name="image")
    x = layers.Conv2D(4, 3, padding="same", name="stem")(image)
    x = Upscale(name="upscale")(x)
    return keras.Model(image, layers.Conv2D(2, 3, padding="same", name="out")(x))
