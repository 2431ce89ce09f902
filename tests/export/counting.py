"""A layer with a state."""

from typing import Any

import keras


class Counting(keras.layers.Layer):
    """Adds the number of its calls."""

    def build(self, shape: Any) -> None:
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")

    def call(self, inputs: Any) -> Any:
        self.count.assign_add(1.0)
        return inputs + self.count
