from pathlib import Path

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import keras_results, onnx_results

RNG = np.random.default_rng(0)
# Colors, grays, ties of the strongest channel, black, and values outside of the colors.
COLORS = np.concatenate(
    [
        RNG.uniform(size=(60, 3)),
        np.repeat(RNG.uniform(size=(9, 1)), 3, axis=1),
        np.stack(np.meshgrid([0.0, 0.5, 1.0], [0.0, 0.5, 1.0], [0.0, 0.5, 1.0]), axis=-1).reshape(27, 3),
        RNG.normal(size=(60, 3)) * 3,
    ]
).astype("float32")
EPSILON = float(np.finfo("float32").eps)


@pytest.mark.parametrize("opset", [15, 18])
@pytest.mark.parametrize("function", [ops.image.rgb_to_hsv, ops.image.hsv_to_rgb])
def test_every_color_is_converted_as_in_keras(function, opset: int, tmp_path: Path) -> None:
    x = COLORS.reshape(-1, 4, 3, 3)
    (truth,), (actual,) = keras_results(function, [x]), onnx_results(function, [x], tmp_path, opset_version=opset)
    # The same operations in the same order; a few roundings if a compiler fuses or a runtime divides otherwise.
    np.testing.assert_allclose(actual, truth, rtol=4 * EPSILON, atol=2 * EPSILON, strict=True)


def test_there_and_back_is_the_same_image(tmp_path: Path) -> None:
    x = COLORS[:60].reshape(5, 4, 3, 3)
    (actual,) = onnx_results(lambda t: ops.image.hsv_to_rgb(ops.image.rgb_to_hsv(t)), [x], tmp_path)
    np.testing.assert_allclose(actual, x, rtol=0, atol=20 * EPSILON)  # six times the rounding of a hue, and some more


def test_channels_that_come_first_are_converted_too(tmp_path: Path) -> None:
    def function(x):
        return ops.image.rgb_to_hsv(x, data_format="channels_first")

    x = COLORS[:60].reshape(4, 3, 5, 3)
    (truth,), (actual,) = keras_results(function, [x]), onnx_results(function, [x], tmp_path)
    np.testing.assert_allclose(actual, truth, rtol=4 * EPSILON, atol=2 * EPSILON)
