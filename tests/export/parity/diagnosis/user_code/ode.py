"""A state that follows a learned field, by steps of Runge and Kutta."""

import keras
import tensorflow as tf


def rk4(field, t, y, h):
    """One step of the fourth order."""
    k1 = field(t, y)
    k2 = field(t + h / 2, y + h / 2 * k1)
    k3 = field(t + h / 2, y + h / 2 * k2)
    k4 = field(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class Field(keras.layers.Layer):
    """A field that depends on time."""

    def __init__(self, width, **kw):
        super().__init__(**kw)
        self.width = width
        self.inner = keras.layers.Dense(10, name="inner")
        self.outer = keras.layers.Dense(width, name="outer")

    def build(self, shape):
        self.inner.build((None, self.width + 1))
        self.outer.build((None, 10))

    def call(self, y, t):
        time = tf.fill(tf.shape(y[:, :1]), t)
        z = tf.concat([y, time], axis=1)
        z = tf.nn.softplus(self.inner(z))
        return tf.tanh(self.outer(z)) - 0.1 * y


class Flow(keras.layers.Layer):
    def __init__(self, width, steps=3, until=1.5, **kw):
        super().__init__(**kw)
        self.steps, self.until = steps, until
        self.field = Field(width, name="field")

    def build(self, shape):
        self.field.build(shape)

    def call(self, y):
        h = self.until / self.steps
        path = [y]
        for step in range(self.steps):
            y = rk4(lambda t, y: self.field(y, t=t), step * h, y, h)
            path.append(y)
        path = tf.stack(path, axis=1)
        speed = (path[:, 1:] - path[:, :-1]) / h
        energy = tf.reduce_mean(tf.square(speed), axis=[1, 2])
        return tf.concat([path[:, -1], energy[:, None]], axis=1)


def make():
    i = keras.Input((6,), name="x")
    y = keras.layers.Dense(4, name="start")(i)
    y = Flow(4, name="flow")(y)
    return keras.Model(i, keras.layers.Dense(3, name="out")(y))
