"""A layer that keeps less in its configuration than it needs."""

from typing import Any

import keras


@keras.saving.register_keras_serializable("tests")
class Forgetful(keras.layers.Layer):
    """Multiplies by a factor: 2 in a layer that is made here, and 1 in a rebuilt layer."""

    factor = 1.0

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = 1.0 if "dtype" in kwargs else 2.0  # a configuration has a dtype

    def call(self, x: Any) -> Any:
        return x * self.factor
