"""What ONNX Runtime's own optimizations break is avoided, or named."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from keras_pe.export import DisagreementError, export_onnx, model_signature
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.onnx.finishing.verification import check_file, mapped_session
from keras_pe.export.runtimes.worker import Worker

X = -1 - np.random.default_rng(0).random((2, 9, 9, 3)).astype("float32")  # below the zeros that are padded


def _model() -> keras.Model:
    layers = [keras.layers.ZeroPadding2D(1), keras.layers.MaxPooling2D(3, strides=2, name="y")]
    return keras.Sequential([keras.Input((9, 9, 3), name="x"), *layers], name="net")


def _padded(path: Path) -> Path:
    """Writes by hand what the exporter avoids: a Pad of zeros right before a MaxPool."""
    shapes = ("x", [None, 9, 9, 3]), ("y", [None, 5, 5, 3])
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes)
    nodes = [
        helper.make_node("Transpose", ["x"], ["images"], perm=[0, 3, 1, 2]),
        helper.make_node("Pad", ["images", "pads"], ["padded"]),
        helper.make_node("MaxPool", ["padded"], ["pooled"], kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Transpose", ["pooled"], ["y"], perm=[0, 2, 3, 1]),
    ]
    pads = numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads")
    graph = helper.make_graph(nodes, "g", [x], [y], [pads])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def _run(path: Path, **options: object) -> np.ndarray:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"], **options)
    return session.run(None, {"x": X})[0]


@pytest.mark.parametrize("opset", [15, 18, 25])
def test_a_pad_before_a_max_pooling_survives_the_optimizations(tmp_path: Path, opset: int) -> None:
    model = _model()
    artifact = export_onnx(model, tmp_path / "m.onnx", opset_version=opset)
    expected = model.predict(X, verbose=0)
    assert expected.max() == 0  # a border where the zeros win
    # Below opset 18 the smallest number stands for zero.
    np.testing.assert_allclose(_run(artifact.path), expected, rtol=0, atol=0 if opset >= 18 else 1e-44)


def test_onnx_runtime_still_takes_zeros_for_the_padding_of_a_max_pooling(tmp_path: Path) -> None:
    path = _padded(tmp_path / "m.onnx")
    message = f"onnxruntime {ort.__version__} is mended: finishing/pads.py may go once no older one is allowed."
    assert _run(path).max() < 0, message
    assert _run(path, disabled_optimizers=["Pad_Fusion"]).max() == 0


@pytest.mark.slow
def test_the_optimization_at_fault_is_named(tmp_path: Path) -> None:
    model = _model()
    layers, signature = all_layers(model), model_signature(model)
    path = _padded(tmp_path / "m.onnx")
    with Worker(mapped_session(), 60) as worker, pytest.raises(DisagreementError) as caught:
        check_file(path, worker, layers, signature)
    assert "differs from Keras' by" in caught.value.reason
    assert (
        f"an optimization of onnxruntime {ort.__version__} is at fault: without 'Pad_Fusion' it returns"
        in caught.value.reason
    )
