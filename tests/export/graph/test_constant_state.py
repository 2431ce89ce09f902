"""A layer that assigns equal values in every call has no state; a layer whose calls differ has."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_pe.export import UnsupportedError, export_onnx
from tests.export.onnx.exported import export_and_compare


class Causal(layers.Layer):
    """A convolution that zeroes the masked part of its kernel before each call, as a PixelCNN does."""

    def build(self, shape: tuple[int, ...]) -> None:
        self.conv = layers.Conv2D(4, 3, padding="same")
        self.conv.build(shape)
        self.mask = np.zeros((3, 3, 1, 1), "float32")
        self.mask[0], self.mask[1, 0] = 1.0, 1.0

    def call(self, images: Any) -> Any:
        self.conv.kernel.assign(self.conv.kernel * self.mask)
        return self.conv(images)


class Assigning(layers.Layer):
    """Assigns what a function makes of a variable and the inputs, before it adds the variable or after."""

    def __init__(self, function: Callable[[Any, Any], Any], *, is_before: bool) -> None:
        super().__init__(name="assigning")
        self.function, self.is_before = function, is_before

    def build(self, shape: tuple[int, ...]) -> None:
        self.state = self.add_weight(shape=(), initializer="zeros", name="state")

    def call(self, x: Any) -> Any:
        if self.is_before:
            self.state.assign(self.function(self.state, x))
        result = x + self.state
        if not self.is_before:
            self.state.assign(self.function(self.state, x))
        return result


def test_a_kernel_that_each_call_masks_arrives(tmp_path: Path) -> None:
    images = keras.Input((8, 8, 1), name="images")
    model = keras.Model(images, Causal()(images))
    before = [np.array(weight) for weight in model.weights]
    export_onnx(model, tmp_path / "first.onnx")
    assert all(np.array_equal(weight, old) for weight, old in zip(model.weights, before, strict=True))
    # Sums of four products of order 1.
    x = np.random.default_rng(0).normal(size=(3, 8, 8, 1)).astype("float32")
    export_and_compare(model, tmp_path / "m.onnx", x, atol=4 * 2**-22)


STATES = {
    "a count": (lambda state, x: state + 1.0, True),
    "what came in last": (lambda state, x: ops.max(x), False),
    "the largest so far": (lambda state, x: ops.maximum(state, ops.max(x)), True),
    "a constant that the first call did not see": (lambda state, x: ops.ones(()), False),
}


@pytest.mark.parametrize("name", STATES)
def test_a_layer_that_differs_from_call_to_call_is_refused(name: str, tmp_path: Path) -> None:
    function, is_before = STATES[name]
    inputs = keras.Input((4,), name="x")
    model = keras.Model(inputs, Assigning(function, is_before=is_before)(inputs))
    with pytest.raises(UnsupportedError, match="'assigning/state' changes with every call"):
        export_onnx(model, tmp_path / "m.onnx")
