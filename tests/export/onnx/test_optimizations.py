"""Faults of ONNX Runtime's own optimizations are avoided, or named."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from keras_pe.export import DisagreementError, export_onnx, model_signature
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.onnx import exporter
from keras_pe.export.runtimes.worker import Worker
from tests.export.runtimes.misoptimizing import FUSION, RULE, misoptimizing
from tests.export.runtimes.optimized_model import optimized_model

X = -1 - np.random.default_rng(0).random((2, 9, 9, 3)).astype("float32")  # below the zeros that are padded


@pytest.mark.parametrize("opset", [15, 18, 25])
def test_a_pad_before_a_max_pooling_survives_the_optimizations(tmp_path: Path, opset: int) -> None:
    """Pad_Fusion leaves a Pad alone that names its axes, or pads with anything but zero."""
    below = keras.layers.Conv2D(3, 1, kernel_initializer=keras.initializers.Constant(1), name="below")
    layers = [below, keras.layers.ZeroPadding2D(1), keras.layers.MaxPooling2D(3, strides=2)]
    model = keras.Sequential([keras.Input((9, 9, 3), name="x"), *layers])
    artifact = export_onnx(model, tmp_path / "m.onnx", opset_version=opset)
    expected = np.asarray(model(X))
    assert expected.max() == 0  # a border where the zeros win
    (actual,) = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"]).run(None, {"x": X})
    # Below opset 18 the smallest number stands for zero.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=0 if opset >= 18 else 1e-44)
    graph = onnx.load(artifact.path).graph
    (pad,) = (node for node in graph.node if node.op_type == "Pad")
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    assert len(pad.input) > 2
    assert constants[pad.input[-1]].any()


@pytest.mark.slow
@pytest.mark.parametrize("fault", [FUSION, RULE])  # a process for each rule
def test_the_optimization_at_fault_is_named(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = optimized_model(tmp_path)
    spec = misoptimizing(fault)
    monkeypatch.setattr(exporter, "memory_mapped_session", lambda: spec)
    with Worker(spec, 60) as worker, pytest.raises(DisagreementError) as caught:
        exporter.check_file(all_layers(model), path, worker, KerasReference(model, model_signature(model)))
    reason = caught.value.reason
    assert "differs from Keras' by 1," in reason
    assert f"an optimization of onnxruntime {ort.__version__} is at fault: without {fault!r} it returns" in reason
