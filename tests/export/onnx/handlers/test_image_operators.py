"""Colors, patches and boxes of images are those of Keras and TensorFlow, at any size."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.export.onnx.exported import assert_agrees, assert_cases_agree

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
# The same operations in the same order; a few roundings if a compiler fuses or a runtime divides otherwise.
ROUNDINGS = {"rtol": 4 * EPSILON, "atol": 2 * EPSILON}


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("opset", [15, 18])
@pytest.mark.parametrize("function", [ops.image.rgb_to_hsv, ops.image.hsv_to_rgb])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_every_color_is_converted_as_in_keras(function, data_format, opset, tmp_path):
    x = COLORS.reshape(-1, 3, 4, 3)
    assert_agrees(lambda x: function(x, data_format=data_format), [x], tmp_path, **ROUNDINGS, opset_version=opset)


@pytest.mark.quick_rows(3)
@pytest.mark.parametrize(
    ("size", "strides", "rates"), [((2, 2), (2, 2), (1, 1)), ((3, 2), (1, 2), (1, 1)), ((2, 3), (3, 1), (2, 2))]
)
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("dims", [(None, None), (8, 8)])
def test_patches_are_cut_as_tensorflow_cuts_them(size, strides, rates, padding, dims, tmp_path):
    def call(images: Any) -> Any:
        return tf.image.extract_patches(images, [1, *size, 1], [1, *strides, 1], [1, *rates, 1], padding)

    shapes = [(2, 8, 8, 3)] if dims[0] else [(2, 8, 8, 3), (3, 7, 12, 3), (1, 5, 6, 3)]
    cases = [[RNG.normal(size=shape).astype("float32")] for shape in shapes]
    assert_cases_agree(call, [(None, *dims, 3)], cases, tmp_path)


SUPPRESSIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "unclipped": {"clip_boxes": False},
    "one threshold": {"score_threshold": 0.2, "clip_boxes": False},
    "much overlap": {"iou_threshold": 0.9, "clip_boxes": False},
    "little overlap": {"iou_threshold": 0.1},
    "padded by class": {"pad_per_class": True},
}


@pytest.mark.quick_rows(3)
@pytest.mark.parametrize("options", SUPPRESSIONS.values(), ids=SUPPRESSIONS)
@pytest.mark.parametrize("own", [1, 3], ids=["shared boxes", "boxes of each class"])
def test_the_best_boxes_of_all_classes_are_those_of_tensorflow(options, own, tmp_path):
    def call(boxes: Any, scores: Any) -> Any:
        return tuple(tf.image.combined_non_max_suppression(boxes, scores, 4, 10, **options))

    def draw_boxes(batch: int, count: int) -> list[Any]:
        rng = np.random.default_rng(count)
        corners = rng.uniform(-0.1, 1.1, (batch, count, own, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(0, 0.4, corners.shape)], -1)
        return [boxes.astype("float32"), rng.normal(size=(batch, count, 3)).astype("float32")]

    cases = [draw_boxes(*each) for each in ((2, 1), (1, 3), (3, 40))]
    assert_cases_agree(call, [(None, None, own, 4), (None, None, 3)], cases, tmp_path, opset_version=15)
