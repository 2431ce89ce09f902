"""Between convolutions nothing is turned that computes alike in any order of axes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
from keras import layers, ops

from keras_pe.export import export_onnx


def _convolution(x: Any) -> Any:
    return layers.Conv2D(8, 3, padding="same")(x)


def _squeeze_and_excite(x: Any) -> Any:
    """Scales channels by what products make of their averages (squeeze and excitation)."""
    scale = layers.Dense(2, activation="relu")(layers.GlobalAveragePooling2D()(x))
    return x * layers.Reshape((1, 1, 8))(layers.Dense(8, activation="sigmoid")(scale))


def _attend_channels_and_pixels(x: Any) -> Any:
    """Scales channels, then pixels (CBAM)."""
    shared = keras.Sequential([layers.Dense(2, activation="relu"), layers.Dense(8)])
    pooled = [shared(kind(keepdims=True)(x)) for kind in (layers.GlobalAveragePooling2D, layers.GlobalMaxPooling2D)]
    x = x * ops.sigmoid(pooled[0] + pooled[1])
    described = ops.concatenate([ops.mean(x, -1, keepdims=True), ops.max(x, -1, keepdims=True)], -1)
    return x * layers.Conv2D(1, 7, padding="same", activation="sigmoid")(described)


def _with_slopes(x: Any) -> Any:
    return layers.PReLU("random_normal", shared_axes=[1, 2])(layers.PReLU("random_normal")(x))


def _convolve_steps(x: Any) -> Any:
    for kind in (layers.Conv2D(8, 3), layers.ReLU(), layers.MaxPooling2D(), layers.Conv2D(8, 2)):
        x = layers.TimeDistributed(kind)(x)
    return x


BETWEEN: dict[str, Callable[[Any], Any]] = {
    "a scale of channels": _squeeze_and_excite,
    "scales of channels and pixels": _attend_channels_and_pixels,
    "slopes": _with_slopes,
    "every second pixel": lambda x: x[:, ::2, ::2],
    "nothing": lambda x: x,
}


def _count_operators(model: keras.Model, folder: Path, shape: tuple[int, ...]) -> Counter[str]:
    """Returns the number of operators of each kind in the file of a model, after comparing its results with Keras."""
    path = export_onnx(model, folder / "model.onnx").path
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    (actual,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    truth = np.asarray(model(x))
    # Some hundred float32 roundings of values of this order.
    np.testing.assert_allclose(actual, truth, rtol=0, atol=100 * 2**-24 * float(np.abs(truth).max()))
    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.slow
@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN.keys())
def test_a_network_is_turned_at_its_ends_alone(between: Callable[[Any], Any], tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((12, 10, 3), name="x")
    model = keras.Model(x, _convolution(between(_convolution(x))))
    assert _count_operators(model, tmp_path, (2, 12, 10, 3))["Transpose"] <= 2


@pytest.mark.slow
def test_images_of_any_number_of_steps_are_turned_at_the_ends_alone(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 12, 10, 3), name="x")
    assert _count_operators(keras.Model(x, _convolve_steps(x)), tmp_path, (2, 3, 12, 10, 3))["Transpose"] <= 2
