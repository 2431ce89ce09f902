"""No run of a file turns or reshapes a weight, and the weights are Keras' own when they are read back."""

import collections

import keras
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.model.stored_weights import LAYOUTS_KEY, layouts_from_json
from keras_pe.export.runtimes.onnx_intermediates import InspectedModel
from tests.export.onnx.exported import chain_layers, export_and_compare, file_operators


def _convolutional() -> keras.Model:
    first = [keras.layers.Conv2D(6, 3, activation="relu"), keras.layers.Conv2D(6, 3, padding="same", activation="tanh")]
    then = [keras.layers.BatchNormalization(), keras.layers.DepthwiseConv2D(3), keras.layers.ReLU()]
    last = [keras.layers.SeparableConv2D(8, 3), keras.layers.Conv2DTranspose(5, 2)]
    return chain_layers((12, 12, 4), *first, *then, *last)


def _attention() -> keras.Model:
    inputs = keras.Input((None, 8))
    x = keras.layers.MultiHeadAttention(2, 4)(inputs, inputs)
    return keras.Model(inputs, keras.layers.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="de")(x))


def _model_with_biases() -> keras.Model:
    layers = [keras.layers.Conv2D(4, 3, activation="relu", bias_initializer="ones") for _ in range(2)]
    return chain_layers((8, 8, 3), *layers, keras.layers.Dense(2, bias_initializer="ones"))


MODELS = {
    "convolutions": _convolutional,
    "attention": _attention,
    "a series": lambda: chain_layers((None, 3), keras.layers.Conv1D(4, 3, padding="causal")),
    "a volume": lambda: chain_layers((6, 6, 6, 2), keras.layers.Conv3D(3, 2)),
    "biases": _model_with_biases,
}


def _readers(path, names):
    """Returns the operators that read weights, by their number."""
    graph = onnx.load(path).graph
    return collections.Counter(node.op_type for node in graph.node if set(names).intersection(node.input))


@pytest.mark.parametrize("name", MODELS)
def test_no_operator_turns_a_weight_and_reading_gives_it_as_keras_has_it(name, tmp_path):
    model = MODELS[name]()
    artifact = export_onnx(model, tmp_path / "model.onnx")
    weights = {v.path: np.asarray(v) for v in model.weights}
    operators = _readers(artifact.path, weights.keys())
    assert operators
    assert not {"Transpose", "Reshape"} & operators.keys(), operators
    stored = InspectedModel(str(artifact.path)).weights()
    kernels = [path for path in weights if path in stored]
    assert kernels
    assert name != "biases" or set(kernels) == set(weights)  # equal biases have a name each
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


def _sum_of_products(x):
    return keras.layers.EinsumDense("abc,cd->abd", (None, 6))(keras.layers.Dense(12)(x) + keras.layers.Dense(12)(x))


def _attend_to_itself(x):
    return keras.layers.MultiHeadAttention(2, 8)(x, x)


@pytest.mark.slow
@pytest.mark.parametrize(("build", "count"), [(_sum_of_products, 3), (_attend_to_itself, 4)])
def test_a_quantized_layer_multiplies_unsigned_integers_and_returns_the_same(build, count, tmp_path):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 16), name="x")
    model = keras.Model(inputs, build(inputs))
    kinds = keras.layers.Dense, keras.layers.EinsumDense
    layers = [each for each in model._flatten_layers(include_self=False) if isinstance(each, kinds)]
    for layer in layers:
        layer.quantize("int8")
    cases = [np.random.default_rng(length).normal(size=(2, length, 16)).astype("float32") for length in (1, 7)]
    # The integers are the same; what is left are a few roundings of numbers below 4.
    artifact = export_and_compare(model, tmp_path / "model.onnx", *cases, atol=64 * 2**-24)
    file = onnx.load(artifact.path)
    stored = {tensor.name: tensor for tensor in file.graph.initializer}
    assert file_operators(artifact.path).count("MatMulInteger") == len(layers) == count
    layouts = layouts_from_json({each.key: each.value for each in file.metadata_props}[LAYOUTS_KEY])
    for layer in layers:
        kernel = stored[layer._kernel.path]
        assert kernel.data_type == TensorProto.UINT8
        restored = layouts[kernel.name].restore(numpy_helper.to_array(kernel))
        np.testing.assert_array_equal(restored, np.asarray(layer._kernel))
    report = check_parity(model, artifact, runtimes="onnxruntime[all]")
    assert report.passed, str(report)
    assert report.results[0].weights.compared == report.results[0].weights.count
