"""Results of a case that the reference refuses."""

import keras
import pytest
import tensorflow as tf

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.results import CaseStatus


class Careful(keras.layers.Layer):
    """Refuses large values where it can see them: when it is called, and not in a graph."""

    def call(self, inputs):
        if tf.executing_eagerly() and float(keras.ops.max(keras.ops.abs(inputs))) > 1e4:
            raise ValueError("too large")
        return 2.0 * inputs


@pytest.mark.slow
def test_a_case_that_the_model_refuses_only_when_it_is_called_is_left_out_with_its_reason(tmp_path):
    inputs = keras.Input((None, 4), name="x")
    model = keras.Model(inputs, keras.layers.Dense(3, name="y")(Careful()(inputs)))
    export_onnx(model, tmp_path / "model.onnx")
    report = check_parity(model, tmp_path / "model.onnx", runtimes=["onnxruntime[all]"])
    assert report.passed, str(report)
    case = next(each for each in report.results[0].cases if each.name == "large values")
    assert case.status is CaseStatus.SKIPPED
    text = " ".join(str(report).split())
    assert "left out: large values: " in text
    assert "(inputs=...)" in text
