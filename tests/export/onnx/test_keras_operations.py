"""Operations of Keras with a namesake in ONNX export as one operator."""

import collections

import keras
import numpy as np
import onnx
import pytest

from keras_pe import RotaryPositionEncoding
from keras_pe.export import check_parity, export_onnx
from keras_pe.export.artifacts.onnx_model import all_nodes

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
    # x - mean is exact to half an ulp of x, 3e-5 at 1000. The scale of 1 / std keeps this error for a std of 1.
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


def test_a_convolution_is_called_by_names_as_well(tmp_path):
    patches = L.Lambda(lambda x: keras.ops.image.extract_patches(x, (2, 2)), output_shape=(4, 4, 12))
    model = _model(patches, shape=(8, 8, 3))
    assert _operators(model, tmp_path)["Conv"] == 1
    assert check_parity(model, tmp_path / "model.onnx", runtimes="onnxruntime[all]", require_coverage=True).passed


GROUPS = {
    "groups": ((None, None, 8), L.GroupNormalization(2)),
    "channels by themselves": ((6, 7, 8), L.GroupNormalization(-1)),
    "one group": ((None, 8), L.GroupNormalization(1, scale=False)),
    "channels first": ((8, None, 6), L.GroupNormalization(4, axis=1, center=False)),
    "a volume": ((3, 4, None, 8), L.GroupNormalization(4, epsilon=0.1)),
}


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(("shape", "layer"), GROUPS.values(), ids=GROUPS.keys())
def test_groups_are_normalized_by_one_operator_between_two_reshapes(shape, layer, tmp_path):
    model = _model(layer, shape=shape)
    operators = _operators(model, tmp_path)
    assert operators["InstanceNormalization"] == 1
    assert operators["Reshape"] == 2 * (layer.groups < 8)
    assert not {"ReduceMean", "Sub", "Sqrt"} & operators.keys()
    assert check_parity(model, tmp_path / "model.onnx", runtimes="onnxruntime[all]", require_coverage=True).passed


def test_groups_between_convolutions_are_normalized_in_their_order_of_axes(tmp_path):
    layers = L.Conv2D(8, 3), L.GroupNormalization(4), L.Activation("relu"), L.Conv2D(8, 3)
    assert _operators(_model(*layers, shape=(None, None, 3)), tmp_path)["Transpose"] == 2


@pytest.mark.parametrize("name", ["hard_sigmoid", "hard_silu", "celu", "hard_shrink", "soft_shrink"])
def test_an_activation_that_onnx_names_is_one_operator(name, tmp_path):
    import onnxruntime

    model = _model(L.Activation(name))
    assert _operators(model, tmp_path).total() == 1
    x = np.linspace(-8, 8, 2 * 3 * 6 * 8, dtype="float32").reshape(2, 3, 6, 8)
    x[0, 0, 0, :3] = np.nan, np.inf, 0
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {session.get_inputs()[0].name: x})
    # A few roundings of numbers below 8.
    np.testing.assert_allclose(actual, np.asarray(model(x)), rtol=0, atol=2e-6)


def test_axes_that_are_not_the_last_are_normalized_as_before(tmp_path):
    operators = _operators(_model(L.LayerNormalization(axis=2)), tmp_path)
    assert not operators["LayerNormalization"]


class Library(L.Layer):
    """Normalizes in operations of its own, as keras-hub's layers do."""

    def build(self, shape):
        self.scale = self.add_weight(shape=shape[-1:], initializer="ones")

    def call(self, x):
        ops = keras.ops
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-6) * (1.0 + self.scale)


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("layer", [L.RMSNormalization, Library, lambda: L.RMSNormalization((-2, -1))])
def test_a_root_mean_square_is_one_operator_from_the_set_that_has_it(layer, tmp_path):
    model = _model(layer())
    at_22, at_23 = (_operators(model, tmp_path, opset_version=opset) for opset in (22, 23))
    assert (at_22["RMSNormalization"], at_22["Pow"]) == (0, 1)
    assert (at_23["RMSNormalization"], at_23["Pow"], at_23["Sqrt"], at_23["ReduceMean"]) == (1, 0, 0, 0)
    assert check_parity(model, tmp_path / "model.onnx", runtimes="onnxruntime").passed


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("approximate", [True, False])
def test_a_gelu_is_one_operator_from_the_set_that_has_it(approximate, tmp_path):
    model = _model(L.Lambda(lambda x: keras.ops.gelu(x, approximate=approximate)))
    at_19, at_20 = (_operators(model, tmp_path, opset_version=opset) for opset in (19, 20))
    assert (at_19["Gelu"], at_19["Tanh"] + at_19["Erf"]) == (0, 1)
    assert at_20 == {"Gelu": 1}
    assert check_parity(model, tmp_path / "model.onnx", runtimes="onnxruntime").passed


class Branching(L.Layer):
    """Computes by operators of late sets in a branch."""

    def call(self, x):
        ops = keras.ops

        def attend():
            scores = ops.einsum("bqhd,bkhd->bhqk", x, x)
            return ops.gelu(ops.einsum("bhqk,bkhd->bqhd", ops.softmax(scores), x))

        return ops.cond(ops.mean(x) > 0, attend, lambda: x * 1.0)


@pytest.mark.slow
def test_operators_of_late_sets_stand_in_branches_too(tmp_path):
    model = _model(Branching())
    path = export_onnx(model, tmp_path / "model.onnx", opset_version=23).path
    kinds = [node.op_type for node in all_nodes(onnx.load(path).graph)]
    assert (kinds.count("Attention"), kinds.count("Gelu")) == (1, 1)
    assert check_parity(model, path, runtimes="onnxruntime").passed


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


def test_arguments_may_be_given_by_their_names(tmp_path):
    operators = _operators(_model(ByKeyword(), shape=(6, 6, 8)), tmp_path)
    assert operators["Resize"] == operators["LayerNormalization"] == operators["Erf"] == 1


def test_operations_are_named_wherever_they_are_called(tmp_path):
    operators = _operators(_model(Functions()), tmp_path)
    assert operators["LayerNormalization"] == operators["HardSwish"] == operators["Erf"] == operators["Pow"] == 1
    assert not operators["Reciprocal"]


def test_a_derivative_is_exported_as_keras_computes_it(tmp_path):
    x = keras.Input(batch_shape=(2, 8))
    assert _operators(keras.Model(x, Slope()(x)), tmp_path)["Erf"] == 1


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


def test_operations_outside_the_graph_are_computed_as_usual(tmp_path):
    inputs = keras.Input((8,), name="x")
    model = keras.Model(inputs, Prepared()(inputs))
    assert not _operators(model, tmp_path)["LayerNormalization"]


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


@pytest.mark.quick_rows(1)
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


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "shape", "count"),
    [
        (L.Conv2D(6, (3, 4), padding="same", dilation_rate=(2, 3)), (None, None, 4), 1),
        (L.Conv2D(6, 3, padding="same", dilation_rate=2, groups=2), (None, None, 4), 1),
        (L.DepthwiseConv2D(3, padding="same", dilation_rate=2), (None, None, 4), 1),
        (L.SeparableConv2D(6, 3, padding="same", dilation_rate=2), (None, None, 4), 2),
        (L.Conv1D(6, 3, padding="same", dilation_rate=4), (None, 4), 1),
    ],
)
def test_a_dilated_convolution_that_keeps_any_size_pads_what_its_kernel_takes(layer, shape, count, tmp_path):
    model = _model(layer, shape=shape)
    operators = _operators(model, tmp_path)
    assert operators["Conv"] == count
    assert set(operators) <= {"Conv", "Pad", "Transpose", "Squeeze", "Unsqueeze", "Reshape"}
    report = check_parity(model, tmp_path / "model.onnx", runtimes="onnxruntime[all]")
    assert report.passed, str(report)
