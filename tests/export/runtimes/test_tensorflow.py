"""TensorFlow's runtime reads and replaces the inner tensors of a SavedModel."""

from pathlib import Path

import numpy as np
import pytest


@pytest.mark.slow
def test_one_of_two_results_of_an_operation_is_replaced(tmp_path: Path) -> None:
    import tensorflow as tf

    from keras_pe.export.runtimes.tensorflow import TensorFlowRuntime

    @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.float32, name="x")])
    def largest(x):
        values, places = tf.math.top_k(2.0 * x, 2)
        return {"y": values + tf.cast(places, tf.float32)}

    module = tf.Module()
    module.largest = largest
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": largest})
    runtime, inputs = TensorFlowRuntime(str(tmp_path)), {"x": np.arange(10, dtype=np.float32).reshape(2, 5)}
    values = next(name for name in runtime.intermediates(inputs, {}) if name.endswith("TopKV2:0"))
    replaced = runtime.intermediates(inputs, {values: np.zeros((2, 2), np.float32)})
    np.testing.assert_array_equal(replaced["y"], [[4, 3], [4, 3]])
