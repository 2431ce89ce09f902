"""The best boxes of all classes are those of TensorFlow: few or many of them, scores of any sign, any threshold."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.export.onnx.exported import keras_results, open_session

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "unclipped": {"clip_boxes": False},
    "one threshold": {"score_threshold": 0.2, "clip_boxes": False},
    "much overlap": {"iou_threshold": 0.9, "clip_boxes": False},
    "little overlap": {"iou_threshold": 0.1},
    "padded by class": {"pad_per_class": True},
}


@pytest.mark.quick_rows(3)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("own", [1, 3], ids=["shared boxes", "boxes of each class"])
def test_the_best_boxes_are_those_of_tensorflow(name: str, own: int, tmp_path: Path) -> None:
    def call(boxes: Any, scores: Any) -> Any:
        return tuple(tf.image.combined_non_max_suppression(boxes, scores, 4, 10, **OPTIONS[name]))

    specs = [
        keras.InputSpec(shape=(None, None, own, 4), dtype="float32"),
        keras.InputSpec(shape=(None, None, 3), dtype="float32"),
    ]
    run = open_session(call, specs, tmp_path, opset_version=15)
    for batch, count in ((2, 1), (1, 3), (3, 40)):
        rng = np.random.default_rng(count)
        corners = rng.uniform(-0.1, 1.1, (batch, count, own, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(0, 0.4, corners.shape)], -1).astype("float32")
        inputs = [boxes, rng.normal(size=(batch, count, 3)).astype("float32")]
        for actual, truth in zip(run(inputs), keras_results(call, inputs), strict=True):
            np.testing.assert_array_equal(actual, truth, strict=True)
