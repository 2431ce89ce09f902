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


@pytest.mark.slow
def test_an_output_is_read_and_replaced_by_its_name(tmp_path: Path) -> None:
    import keras

    from keras_pe.export import export_saved_model
    from keras_pe.export.runtimes.tensorflow import TensorFlowRuntime

    x = keras.Input((3,), name="x")
    model = keras.Model(x, {name: keras.layers.Dense(2)(x) for name in ("points", "rank", "points_1")})
    runtime = TensorFlowRuntime(str(export_saved_model(model, tmp_path / "model").path))
    inputs = {"x": np.ones((1, 3), np.float32)}
    inside, outputs = runtime.intermediates(inputs, {}), runtime.run(inputs)
    assert len(outputs) == 3
    for name, array in outputs.items():
        np.testing.assert_array_equal(inside[name], array)
        replaced = runtime.intermediates(inputs, {name: np.zeros_like(array)})
        assert {each for each in outputs if not np.array_equal(replaced[each], outputs[each])} == {name}
