"""A call for which TensorFlow ends the process is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from keras import ops

from keras_pe.export.graph.tensorflow_internals import fatal_calls_refused


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.nn.conv2d(tf.ones((4, 4, 2)), tf.ones((3, 3, 2, 1)), 1, "SAME"),
        lambda: tf.nn.conv1d(tf.ones((4, 2)), tf.ones((3, 2, 1)), 1, "SAME"),
        lambda: tf.nn.depthwise_conv2d(tf.ones((4, 4, 2)), tf.ones((3, 3, 2, 1)), [1] * 4, "SAME"),
        lambda: tf.nn.max_pool3d(tf.ones((4, 4, 4, 2)), 2, 2, "SAME"),
        lambda: tf.signal.rfft(tf.ones((4, 4)), [0]),
        lambda: ops.rfft(ops.ones((4, 4)), 0),
        lambda: ops.irfft((ops.ones((4, 4)), ops.ones((4, 4))), 0),
    ],
)
def test_call_that_ends_the_process_is_refused(call: Callable[[], Any]) -> None:
    with fatal_calls_refused(), pytest.raises(ValueError, match="Received"):
        call()


def test_other_calls_are_as_before() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: ops.conv(ops.ones((1, 4, 4, 2)), ops.ones((3, 3, 2, 1)), padding="same"),
        lambda: ops.depthwise_conv(ops.ones((1, 4, 4, 2)), ops.ones((3, 3, 2, 1)), padding="same"),
        lambda: ops.max_pool(ops.ones((1, 4, 4, 4, 2)), 2),
        lambda: ops.rfft(ops.ones((4, 4)))[0],
    ]
    for call in calls:
        with fatal_calls_refused():
            inside = call()
        assert ops.convert_to_numpy(inside).tolist() == ops.convert_to_numpy(call()).tolist()
