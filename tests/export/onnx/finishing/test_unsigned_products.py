"""The products of a model that Keras has quantized to int8 are those of unsigned integers, with the same results."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, numpy_helper

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.model.stored_weights import LAYOUTS_KEY, layouts_from_json

L = keras.layers


@pytest.mark.slow
def test_a_quantized_layer_multiplies_unsigned_integers_and_returns_the_same(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 16), name="x")
    layers = [L.Dense(12, name="left"), L.Dense(12, name="right"), L.EinsumDense("abc,cd->abd", (None, 6), name="last")]
    model = keras.Model(inputs, layers[2](layers[0](inputs) + layers[1](inputs)))
    for layer in layers:
        layer.quantize("int8")
    artifact = export_onnx(model, tmp_path / "model.onnx")
    file = onnx.load(artifact.path)
    stored = {tensor.name: tensor for tensor in file.graph.initializer}
    assert [node.op_type for node in file.graph.node].count("MatMulInteger") == 3
    layouts = layouts_from_json({each.key: each.value for each in file.metadata_props}[LAYOUTS_KEY])
    for layer in layers:
        kernel = stored[layer._kernel.path]
        assert kernel.data_type == TensorProto.UINT8
        restored = layouts[kernel.name].restore(numpy_helper.to_array(kernel))
        np.testing.assert_array_equal(restored, np.asarray(layer._kernel))
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    for length in (1, 7):
        x = np.random.default_rng(length).normal(size=(2, length, 16)).astype("float32")
        # The integers are the same; what is left are a few roundings of numbers below 4.
        np.testing.assert_allclose(session.run(None, {"x": x})[0], np.asarray(model(x)), rtol=0, atol=64 * 2**-24)


@pytest.mark.slow
def test_an_attention_that_is_quantized_multiplies_integers_as_well(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 16), name="x")
    attention = L.MultiHeadAttention(2, 8, name="attention")
    model = keras.Model(inputs, attention(inputs, inputs))
    for projection in attention._flatten_layers(include_self=False):
        if isinstance(projection, L.EinsumDense):
            projection.quantize("int8")
    artifact = export_onnx(model, tmp_path / "model.onnx")
    file = onnx.load(artifact.path)
    assert [node.op_type for node in file.graph.node].count("MatMulInteger") == 4
    kernels = [tensor for tensor in file.graph.initializer if tensor.name.endswith("/kernel")]
    assert {tensor.data_type for tensor in kernels} == {TensorProto.UINT8}
    report = check_parity(model, artifact, runtimes="onnxruntime[all]")
    assert report.passed, str(report)
    assert report.results[0].weights is not None
    assert report.results[0].weights.compared == report.results[0].weights.count
