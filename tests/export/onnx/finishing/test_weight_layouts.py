"""No run of a file turns or reshapes a weight, and the weights are Keras' own when they are read back."""

import collections

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.runtimes.onnx_intermediates import InspectedModel


def _convolutional(data_format: str = "channels_last") -> keras.Model:
    x = inputs = keras.Input((12, 12, 4))
    x = keras.layers.Conv2D(6, 3, activation="relu")(x)
    x = keras.layers.BatchNormalization()(keras.layers.Conv2D(6, 3, padding="same", activation="tanh")(x))
    x = keras.layers.ReLU()(keras.layers.DepthwiseConv2D(3)(x))
    x = keras.layers.SeparableConv2D(8, 3)(x)
    x = keras.layers.Conv2DTranspose(5, 2)(x)
    return keras.Model(inputs, x)


def _attention() -> keras.Model:
    inputs = keras.Input((None, 8))
    x = keras.layers.MultiHeadAttention(2, 4)(inputs, inputs)
    return keras.Model(inputs, keras.layers.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="de")(x))


def _series() -> keras.Model:
    inputs = keras.Input((None, 3))
    return keras.Model(inputs, keras.layers.Conv1D(4, 3, padding="causal")(inputs))


def _volume() -> keras.Model:
    inputs = keras.Input((6, 6, 6, 2))
    return keras.Model(inputs, keras.layers.Conv3D(3, 2)(inputs))


def _readers(path, names):
    """Returns the operators that read weights, by their number."""
    graph = onnx.load(path).graph
    return collections.Counter(node.op_type for node in graph.node if set(names).intersection(node.input))


@pytest.mark.parametrize("build", [_convolutional, _attention, _series, _volume])
def test_no_operator_turns_a_weight_and_reading_gives_it_as_keras_has_it(build, tmp_path):
    keras.utils.set_random_seed(0)
    model = build()
    artifact = export_onnx(model, tmp_path / "model.onnx")
    weights = {v.path: np.asarray(v) for v in model.weights}
    operators = _readers(artifact.path, weights.keys())
    assert operators
    assert not {"Transpose", "Reshape"} & operators.keys(), operators
    stored = InspectedModel(str(artifact.path)).weights()
    kernels = [path for path in weights if path in stored]
    assert kernels
    for path in kernels:
        np.testing.assert_array_equal(stored[path], weights[path])


@pytest.mark.slow
def test_a_weight_that_is_read_in_two_ways_is_stored_once_as_keras_has_it(tmp_path):
    keras.utils.set_random_seed(0)
    embedding = keras.layers.ReversibleEmbedding(11, 4)
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, embedding(embedding(inputs), reverse=True))
    artifact = export_onnx(model, tmp_path / "tied.onnx")
    (stored,) = (t for t in onnx.load(artifact.path).graph.initializer if t.name == embedding.embeddings.path)
    assert list(stored.dims) == [11, 4]


@pytest.mark.slow
def test_a_damaged_kernel_is_found_by_its_name_though_it_is_stored_turned(tmp_path):
    keras.utils.set_random_seed(0)
    model = _convolutional()
    artifact = export_onnx(model, tmp_path / "model.onnx")
    proto = onnx.load(artifact.path)
    kernel = model.layers[1].kernel
    (tensor,) = (each for each in proto.graph.initializer if each.name == kernel.path)
    values = onnx.numpy_helper.to_array(tensor).copy()
    values[2] *= -1.0  # the third output channel
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    onnx.save(proto, artifact.path)
    report = check_parity(model, artifact.path, runtimes=["onnxruntime[basic]"])
    assert not report.passed
    assert {finding.layer for finding in report.findings} == {model.layers[1].path}
