"""What Keras calls by a name that ONNX has as well is one operator of the file."""

import collections

import keras
import numpy as np
import onnx
import pytest

from keras_pe import RotaryPositionEncoding
from keras_pe.export import check_parity, export_onnx
from tests.export.onnx.exported import expected, exported

L = keras.layers


def _operators(model, folder, **options):
    path = export_onnx(model, folder / "model.onnx", **options).path
    return collections.Counter(node.op_type for node in onnx.load(path).graph.node)


def _model(*layers, shape=(None, 6, 8)):
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input(shape)
    for layer in layers:
        x = layer(x)
    model = keras.Model(inputs, x)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape))
    return model


class Functions(L.Layer):
    """Calls the operations themselves, as a layer of one's own does."""

    def call(self, x):
        ops = keras.ops
        x = ops.layer_normalization(x, epsilon=1e-2) + ops.rms_normalization(x)
        return ops.gelu(x, approximate=False) + ops.hard_silu(x)


class Slope(L.Layer):
    """Returns the derivative of an activation, as a model of energies and forces does."""

    def call(self, x):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = keras.ops.gelu(x, approximate=False)
        return tape.gradient(y, x)


def test_a_layer_normalization_is_one_operator_from_the_set_that_has_it(tmp_path):
    model = _model(L.LayerNormalization(), L.LayerNormalization(axis=(-2, -1)), L.LayerNormalization(scale=False))
    assert _operators(model, tmp_path) == {"LayerNormalization": 3}
    operators = _operators(model, tmp_path, opset_version=15)
    assert not operators["LayerNormalization"]
    assert operators["ReduceMean"] + operators["GlobalAveragePool"] == 6


def test_large_means_cost_no_digits_at_any_operator_set(tmp_path):
    # x - mean is exact to half an ulp of x, 3e-5 at 1000, which the scale of 1 / std leaves as it is for a std of 1.
    import onnxruntime

    model = _model(L.LayerNormalization())
    x = 1000 + np.random.default_rng(1).normal(size=(2, 3, 6, 8)).astype("float32")
    gamma, beta = (np.asarray(v, "float64") for v in model.weights)
    exact = x.astype("float64")
    expected = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-3) * gamma + beta
    for opset in (15, 18):
        path = export_onnx(model, tmp_path / f"{opset}.onnx", opset_version=opset).path
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (actual,) = session.run(None, {session.get_inputs()[0].name: x})
        spread = np.abs(gamma).max() / np.sqrt(exact.var(-1).min() + 1e-3)
        assert np.abs(actual - expected).max() <= 4 * 2**-15 * spread, opset


def test_axes_that_are_not_the_last_are_normalized_as_before(tmp_path):
    operators = _operators(_model(L.LayerNormalization(axis=2)), tmp_path)
    assert not operators["LayerNormalization"]


def test_operations_are_named_wherever_they_are_called(tmp_path):
    operators = _operators(_model(Functions()), tmp_path)
    assert operators["LayerNormalization"] == operators["HardSwish"] == operators["Erf"] == operators["Pow"] == 1
    assert not operators["Reciprocal"]


def test_a_derivative_is_exported_as_keras_computes_it(tmp_path):
    x = keras.Input(batch_shape=(2, 8))
    assert _operators(keras.Model(x, Slope()(x)), tmp_path)["Erf"] == 1


@pytest.mark.slow
def test_a_normalization_in_half_precision_is_one_operator_that_computes_in_float32(tmp_path):
    model = _model(
        L.LayerNormalization(dtype="mixed_float16"),
        L.Dense(3, dtype="mixed_float16"),
        L.RMSNormalization(dtype="float16"),
    )
    graph = onnx.load(export_onnx(model, tmp_path / "model.onnx", half_precision=True).path).graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    producers = {node.output[0]: node for node in graph.node}
    (norm,) = [node for node in graph.node if node.op_type == "LayerNormalization"]
    assert [types[name] for name in norm.input[1:]] == [onnx.TensorProto.FLOAT] * 2
    (power,) = [node for node in graph.node if node.op_type == "Pow"]
    assert producers[power.input[0]].op_type == "Cast"


@pytest.mark.parametrize("activation", ["relu6", "hard_silu"])
def test_a_convolutional_network_is_transposed_at_its_ends_alone(activation, tmp_path):
    squeeze = [L.GlobalAveragePooling2D(keepdims=True), L.Conv2D(4, 1, activation=activation)]
    block = [L.Conv2D(6, 3, activation=activation), L.BatchNormalization(), L.DepthwiseConv2D(3)]
    block.append(L.Activation(activation))
    operators = _operators(_model(*block, *squeeze, shape=(12, 12, 3)), tmp_path)
    assert operators["Transpose"] <= 2
    operators = _operators(_model(*block, L.GlobalAveragePooling2D(), L.Dense(2), shape=(12, 12, 3)), tmp_path)
    assert operators["Transpose"] == 1


@pytest.mark.slow
def test_masked_attention_adds_a_mask_that_is_made_once_and_answers_as_keras_does(tmp_path):
    def attend(x, mask):
        for is_causal in (False, False, True, True):
            x = x + keras.ops.dot_product_attention(x, x, x, mask=mask, is_causal=is_causal)
        return x

    rng = np.random.default_rng(0)
    given = [rng.normal(size=(2, 5, 2, 4)).astype("float32"), rng.random((2, 1, 5, 5)) < 0.5]
    given[1][0, 0, 1] = False  # a query that may see nothing takes the mean of all
    (actual,) = exported(attend, given, tmp_path)
    # Sums of at most eight products of numbers around one, in two products a call: 2**-24 each.
    np.testing.assert_allclose(actual, expected(attend, given)[0], rtol=0, atol=100 * 2**-24)
    graph = onnx.load(tmp_path / "calls.onnx").graph
    operators = collections.Counter(node.op_type for node in graph.node)
    assert operators["Where"] == 2  # with and without what comes later
    assert operators["And"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23, 25])
@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", [L.MultiHeadAttention, L.GroupQueryAttention])
def test_attention_is_one_operator_from_the_set_that_has_it_and_selects_no_scores(
    kind, dropout, use_causal_mask, opset, tmp_path
):
    import onnxruntime

    keras.utils.set_random_seed(0)
    layer = kind(2, 4, dropout=dropout) if kind is L.MultiHeadAttention else kind(4, 4, 2, dropout=dropout)
    x, mask = keras.Input((None, 8), name="x"), keras.Input((None, None), dtype="bool", name="mask")
    model = keras.Model([x, mask], layer(x, x, attention_mask=mask, use_causal_mask=use_causal_mask))
    artifact = export_onnx(model, tmp_path / "model.onnx", opset_version=opset)
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(2, 5, 8)).astype("float32"), "mask": rng.random((2, 5, 5)) < 0.5}
    given["mask"][0, 1] = False  # with dropout it takes nothing, without the mean of all
    session = onnxruntime.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    # Sums of at most eight products of numbers around one, four times over: 2**-24 each.
    np.testing.assert_allclose(session.run(None, given)[0], model(given), rtol=0, atol=200 * 2**-24)
    graph = onnx.load(artifact.path).graph
    operators = collections.Counter(node.op_type for node in graph.node)
    unfused = [reason for each in artifact.contents for name, reason in each.unfused.items() if name == "Attention"]
    if opset == 23:
        assert (operators["Attention"], operators["Softmax"], unfused) == (1, 0, [])
        return
    assert (operators["Attention"], operators["Softmax"], len(unfused)) == (0, 1, 1)
    producers = {name: node for node in graph.node for name in node.output}
    (softmax,) = [node for node in graph.node if node.op_type == "Softmax"]
    assert producers[softmax.input[0]].op_type == "Add"
    assert not any(node.op_type == "Where" and softmax.output[0] in node.input for node in graph.node)


@pytest.mark.slow
def test_why_attention_stays_several_operators_is_told(tmp_path):
    x = keras.Input((4, 8), name="x")
    output, _ = L.MultiHeadAttention(2, 4, name="scored")(x, x, return_attention_scores=True)
    for opset, reasons in ((18, {"several"}), (24, set())):
        model = keras.Model(x, L.MultiHeadAttention(2, 4, name="several")(output, x))
        artifact = export_onnx(model, tmp_path / f"{opset}.onnx", opset_version=opset)
        unfused = {each.layer: each.unfused["Attention"] for each in artifact.contents if "Attention" in each.unfused}
        assert unfused.keys() == {"scored", *reasons}
        assert unfused["scored"] == "its scores are returned"


@pytest.mark.slow
def test_the_bias_of_a_projection_is_added_before_its_result_is_split(tmp_path):
    inputs = keras.Input((None, 8))
    x = L.MultiHeadAttention(2, 4)(inputs, inputs)
    split = L.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="de")
    model = keras.Model(inputs, L.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="d")(x) * split(x))
    graph = onnx.load(export_onnx(model, tmp_path / "model.onnx").path).graph
    producers = {name: node.op_type for node in graph.node for name in node.output}
    sums = [node for node in graph.node if node.op_type == "Add"]
    before = [producers[name] for node in sums for name in node.input if name in producers]
    assert sorted(before) == ["MatMul"] * 5 + ["Reshape"]  # that of a bias of the heads alone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "arguments", "count"),
    [
        ((None, 4, 16), {}, 1),
        ((4, None, 16), {"sequence_axis": 2, "layout": "interleaved"}, 1),
        ((None, 4, 16), {"rotary_dim": 8, "scaling": {"rope_type": "linear", "factor": 4.0}}, 1),
        ((4, 1, 16), {"sequence_axis": 2}, 1),
        ((None, 16), {}, 0),  # without an axis of heads
    ],
    ids=["heads third", "heads second", "part of the channels", "one step", "no heads"],
)
def test_a_rotation_is_one_operator_from_the_set_that_has_it(tmp_path, shape, arguments, count):
    x = keras.Input(shape, name="x")
    start = keras.Input((), dtype="int32", name="start")
    model = keras.Model([x, start], RotaryPositionEncoding(**arguments)(x, start_index=start))
    for opset, wanted in ((18, 0), (23, count)):
        artifact = export_onnx(model, tmp_path / f"{opset}.onnx", opset_version=opset)
        found = [node.op_type for node in onnx.load(artifact.path).graph.node]
        assert found.count("RotaryEmbedding") == wanted
        assert check_parity(model, artifact, runtimes="onnxruntime[all]").passed
