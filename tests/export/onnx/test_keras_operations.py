"""Operations of Keras with a namesake in ONNX export as one operator."""

import collections

import keras
import numpy as np
import onnx
import onnxruntime
import pytest

from keras_pe import RotaryPositionEncoding
from keras_pe.export import check_parity, export_onnx
from tests.export.onnx.exported import (
    Apply,
    chain_layers,
    export_and_compare,
    file_operators,
    randomize_weights,
    run_file,
)

L = keras.layers


def _operators(model, folder, **options):
    return collections.Counter(file_operators(export_onnx(model, folder / "model.onnx", **options).path))


def _checked_operators(model, folder, **options):
    """Returns the operators of a file that agrees with Keras in every case of a check."""
    found = _operators(model, folder, **options)
    report = check_parity(
        model, folder / "model.onnx", runtimes="onnxruntime[all]", require_coverage=bool(model.weights)
    )
    assert report.passed, str(report)
    return found


def _model(*layers, shape=(None, 6, 8)):
    return randomize_weights(chain_layers(shape, *layers), 0.5, 1.5)


def _call_operations(x):
    ops = keras.ops
    x = ops.layer_normalization(x, epsilon=1e-2) + ops.rms_normalization(x)
    return ops.gelu(x, approximate=False) + ops.hard_silu(x)


def _slope(x):
    """Returns the derivative of an activation, as a model of energies and forces does."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = keras.ops.gelu(x, approximate=False)
    return tape.gradient(y, x)


def test_large_means_cost_no_digits_at_any_operator_set(tmp_path):
    # x - mean is exact to half an ulp of x, 3e-5 at 1000. The scale of 1 / std keeps this error for a std of 1.
    model = _model(L.LayerNormalization())
    x = 1000 + np.random.default_rng(1).normal(size=(2, 3, 6, 8)).astype("float32")
    gamma, beta = (np.asarray(v, "float64") for v in model.weights)
    exact = x.astype("float64")
    expected = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-3) * gamma + beta
    for opset in (15, 18):
        path = export_onnx(model, tmp_path / f"{opset}.onnx", opset_version=opset).path
        (actual,) = run_file(path, x=x)
        spread = np.abs(gamma).max() / np.sqrt(exact.var(-1).min() + 1e-3)
        assert np.abs(actual - expected).max() <= 4 * 2**-15 * spread, opset


@pytest.mark.parametrize("name", ["hard_sigmoid", "hard_silu", "celu", "hard_shrink", "soft_shrink"])
def test_an_activation_that_onnx_names_is_one_operator(name, tmp_path):
    model = _model(L.Activation(name))
    x = np.linspace(-8, 8, 2 * 3 * 6 * 8, dtype="float32").reshape(2, 3, 6, 8)
    x[0, 0, 0, :3] = np.nan, np.inf, 0
    # A few roundings of numbers below 8.
    path = export_and_compare(model, tmp_path / "model.onnx", x, atol=2e-6).path
    assert len(file_operators(path)) == 1


class Library(L.Layer):
    """Normalizes in operations of its own, as keras-hub's layers do."""

    def build(self, shape):
        self.scale = self.add_weight(shape=shape[-1:], initializer="ones")

    def call(self, x):
        ops = keras.ops
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-6) * (1.0 + self.scale)


def test_onnx_runtime_computes_a_root_mean_square_by_one_operator(tmp_path):
    artifact = export_onnx(_model(Library()), tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # silences the warning that the file suits this machine alone
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(artifact.path, options)
    nodes = onnx.load(tmp_path / "optimized.onnx").graph.node
    assert [node.op_type for node in nodes] == ["SimplifiedLayerNormalization"]


def _branch(x):
    ops = keras.ops

    def attend():
        scores = ops.einsum("bqhd,bkhd->bhqk", x, x)
        return ops.gelu(ops.einsum("bhqk,bkhd->bqhd", ops.softmax(scores), x))

    return ops.cond(ops.mean(x) > 0, attend, lambda: x * 1.0)


class ByKeyword(L.Layer):
    """Calls operations and layers by the names of their arguments."""

    def __init__(self):
        super().__init__()
        self.kernel = self.add_weight(shape=(2, 2, 8, 8), initializer="random_normal")
        self.twice, self.groups = L.UpSampling2D(), L.GroupNormalization(2)

    def call(self, x):
        ops = keras.ops
        x = ops.gelu(x=ops.conv(inputs=x, kernel=self.kernel, padding="same", dilation_rate=2), approximate=False)
        x = ops.image.extract_patches(self.groups(inputs=self.twice(inputs=x)), 2, strides=1, dilation_rate=2)
        attended = ops.dot_product_attention(query=x, key=x, value=x) + ops.layer_normalization(x=x)
        return attended + ops.matmul(x1=x, x2=ops.swapaxes(x, axis1=2, axis2=3))[..., :1]


class Prepared(L.Layer):
    """Normalizes a constant by a layer, outside the graph that is traced, as Stable Diffusion 3 does its samples."""

    def __init__(self):
        super().__init__()
        self.normalize = L.LayerNormalization(center=False, scale=False)

    def call(self, x):
        import tensorflow as tf

        with tf.init_scope():
            constant = self.normalize(np.arange(8.0, dtype="float32")[None])
        return x + constant


def _gelu(approximate):
    return L.Lambda(lambda x: keras.ops.gelu(x, approximate=approximate))


def _convolve(activation, *last):
    block = [L.Conv2D(6, 3, activation=activation), L.BatchNormalization(), L.DepthwiseConv2D(3)]
    return [*block, L.Activation(activation), *last]


def _squeeze(activation):
    return [L.GlobalAveragePooling2D(keepdims=True), L.Conv2D(4, 1, activation=activation)]


TOKENS, IMAGE, ANY = (None, 6, 8), (12, 12, 3), (None, None, 4)
# Layers one after another, the shape of their input, the operator set, and the number of some operators.
NAMED = {
    "layer normalizations": (
        [L.LayerNormalization(), L.LayerNormalization(axis=(-2, -1)), L.LayerNormalization(scale=False)],
        *(TOKENS, 18, {"LayerNormalization": 3, "ReduceMean": 0, "Mul": 0, "Add": 0}),
    ),
    "a layer normalization below its set": (
        [L.LayerNormalization()], TOKENS, 15, {"LayerNormalization": 0, "ReduceMean": 2}),
    "another axis": ([L.LayerNormalization(axis=2)], TOKENS, 18, {"LayerNormalization": 0}),
    "named arguments": ([ByKeyword()], (6, 6, 8), 18, {"Resize": 1, "LayerNormalization": 1, "Erf": 1}),
    "operations of a layer": (
        [Apply(_call_operations)], TOKENS, 18,
        {"LayerNormalization": 1, "HardSwish": 1, "Erf": 1, "Pow": 1, "Reciprocal": 0}),
    "a constant computed outside the graph": ([Prepared()], (8,), 18, {"LayerNormalization": 0}),
    "groups between convolutions": (
        [L.Conv2D(8, 3), L.GroupNormalization(4), L.Activation("relu"), L.Conv2D(8, 3)], ANY, 18, {"Transpose": 2}),
    **{f"images of {name} until an average": (
        _convolve(name, *_squeeze(name)), IMAGE, 18, {"Transpose": 1, "GlobalAveragePool": 1})
       for name in ("relu6", "hard_silu")},
    **{f"images of {name} until a product": (
        _convolve(name, L.GlobalAveragePooling2D(), L.Dense(2)), IMAGE, 18, {"Transpose": 1})
       for name in ("relu6", "hard_silu")},
}  # fmt: skip


@pytest.mark.quick_rows(8)
@pytest.mark.parametrize(("layers", "shape", "opset", "counts"), NAMED.values(), ids=NAMED)
def test_operations_are_the_operators_of_their_names(layers, shape, opset, counts, tmp_path):
    operators = _operators(_model(*layers, shape=shape), tmp_path, opset_version=opset)
    assert {name: operators[name] for name in counts} == counts


ROOT = {"RMSNormalization": 1, "Pow": 0, "Sqrt": 0, "ReduceMean": 0}
SPELLED = {"RMSNormalization": 0, "Pow": 1}
# The padding of a dilated convolution of any size is a constant.
DILATED = {"Conv": 1, "Shape": 0, "Gather": 0, "Where": 0}
CHECKED = {
    "groups": ([L.GroupNormalization(2)], (None, None, 8), 18, {"InstanceNormalization": 1, "Reshape": 2}),
    "a root mean square": ([L.RMSNormalization()], TOKENS, 23, ROOT),
    "a root mean square below its set": ([L.RMSNormalization()], TOKENS, 22, SPELLED),
    "a gelu": ([_gelu(True)], TOKENS, 20, {"Gelu": 1, "Tanh": 0, "Mul": 0}),
    "a gelu below its set": ([_gelu(True)], TOKENS, 19, {"Gelu": 0, "Tanh": 1}),
    "patches": (
        [L.Lambda(lambda x: keras.ops.image.extract_patches(x, (2, 2)), output_shape=(6, 6, 12))], IMAGE, 18,
        {"Conv": 1}),
    "channels by themselves": (
        [L.GroupNormalization(-1)], (6, 7, 8), 18, {"InstanceNormalization": 1, "Reshape": 0, "ReduceMean": 0}),
    "one group": (
        [L.GroupNormalization(1, scale=False)], (None, 8), 18, {"InstanceNormalization": 1, "Reshape": 2, "Sqrt": 0}),
    "channels first": (
        [L.GroupNormalization(4, axis=1, center=False)], (8, None, 6), 18, {"InstanceNormalization": 1, "Reshape": 2}),
    "a volume": (
        [L.GroupNormalization(4, epsilon=0.1)], (3, 4, None, 8), 18, {"InstanceNormalization": 1, "Reshape": 2}),
    "a root mean square of a library": ([Library()], TOKENS, 23, ROOT),
    "that of a library below its set": ([Library()], TOKENS, 22, SPELLED),
    "a root mean square of two axes": ([L.RMSNormalization((-2, -1))], TOKENS, 23, ROOT),
    "that of two axes below its set": ([L.RMSNormalization((-2, -1))], TOKENS, 22, SPELLED),
    "an exact gelu": ([_gelu(False)], TOKENS, 20, {"Gelu": 1, "Erf": 0, "Mul": 0}),
    "an exact gelu below its set": ([_gelu(False)], TOKENS, 19, {"Gelu": 0, "Erf": 1}),
    "operators of late sets in a branch": ([Apply(_branch)], TOKENS, 23, {"Attention": 1, "Gelu": 1}),
    "a dilated kernel": ([L.Conv2D(6, (3, 4), padding="same", dilation_rate=(2, 3))], ANY, 18, DILATED),
    "dilated groups": ([L.Conv2D(6, 3, padding="same", dilation_rate=2, groups=2)], ANY, 18, DILATED),
    "dilated channels": ([L.DepthwiseConv2D(3, padding="same", dilation_rate=2)], ANY, 18, DILATED),
    "dilated and separable": (
        [L.SeparableConv2D(6, 3, padding="same", dilation_rate=2)], ANY, 18, {**DILATED, "Conv": 2}),
    "a padding before it": (
        [L.ZeroPadding2D(((1, 0), (2, 1))), L.Conv2D(3, 3, padding="same", dilation_rate=2)], (9, 8, 2), 18,
        {**DILATED, "Pad": 1}),
    "a dilated line": ([L.Conv1D(6, 3, padding="same", dilation_rate=4)], (None, 4), 18, DILATED),
}  # fmt: skip


@pytest.mark.quick_rows(5)
@pytest.mark.slow_rows(6)
@pytest.mark.parametrize(("layers", "shape", "opset", "counts"), CHECKED.values(), ids=CHECKED)
def test_operations_of_one_operator_agree_in_every_case_of_a_check(layers, shape, opset, counts, tmp_path):
    operators = _checked_operators(_model(*layers, shape=shape), tmp_path, opset_version=opset)
    assert {name: operators[name] for name in counts} == counts


def test_a_derivative_is_exported_as_keras_computes_it(tmp_path):
    x = keras.Input(batch_shape=(2, 8))
    assert _operators(keras.Model(x, Apply(_slope)(x)), tmp_path)["Erf"] == 1


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


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.parametrize(("shape", "arguments", "count"), [
    ((None, 4, 16), {}, 1),
    ((4, None, 16), {"sequence_axis": 2, "layout": "interleaved"}, 1),
    ((None, 4, 16), {"rotary_dim": 8, "scaling": {"rope_type": "linear", "factor": 4.0}}, 1),
    ((4, 1, 16), {"sequence_axis": 2}, 1),
    ((None, 16), {}, 0),  # without an axis of heads
], ids=["heads third", "heads second", "part of the channels", "one step", "no heads"])  # fmt: skip
def test_a_rotation_is_one_operator_from_the_set_that_has_it(tmp_path, shape, arguments, count):
    x = keras.Input(shape, name="x")
    start = keras.Input((), dtype="int32", name="start")
    model = keras.Model([x, start], RotaryPositionEncoding(**arguments)(x, start_index=start))
    for opset, wanted in ((18, 0), (23, count)):
        assert _checked_operators(model, tmp_path, opset_version=opset)["RotaryEmbedding"] == wanted
