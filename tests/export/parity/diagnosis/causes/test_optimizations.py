"""Where levels of ONNX Runtime differ, the optimization that makes the difference is named, and each level is shown."""

import keras

from keras_pe.export import check_parity
from tests.export.onnx.finishing.test_optimizations import X, _padded


def test_the_optimization_that_makes_two_levels_differ_is_named(tmp_path):
    layers = [keras.layers.ZeroPadding2D(1), keras.layers.MaxPooling2D(3, strides=2, name="y")]
    model = keras.Sequential([keras.Input((9, 9, 3), name="x"), *layers], name="net")
    path = _padded(tmp_path / "model.onnx")
    report = check_parity(model, path, inputs={"x": X}, runtimes=["onnxruntime[disabled]", "onnxruntime[all]"])
    assert [result.passed for result in report.results] == [True, False]
    (finding,) = report.findings
    assert finding.cause == "graph optimization"
    assert "without 'Pad_Fusion' it does" in finding.evidence
    assert "onnxruntime[disabled]" in str(report)
    assert "onnxruntime[all] on model.onnx: FAILED" in str(report)
