"""Something of a layer's own changed, in this package's files and in Keras': the cause and the layer are named."""

import zlib
from dataclasses import replace

import keras
import numpy as np
import onnx
import pytest
from keras import layers as L  # noqa: N812
from keras import ops
from onnx import helper

from keras_pe.export import Cause, check_parity, export_onnx
from keras_pe.export.parity.diagnosis.sites.attributes import cause_of
from tests.export.parity.diagnosis.changes import SEQUENCE, Change, assign, functional, one, pool_layer, say, write


def quick_gelu(x):
    return x * ops.sigmoid(1.702 * x)


def _scales_elsewhere(kernel: np.ndarray) -> np.ndarray:
    scale = np.abs(kernel).max(0) / 127
    return np.rint(kernel / scale) * np.roll(scale, 1)


def _summed_bias(model: keras.Model) -> None:
    """Gives a layer of one bias what the other layer's two are together."""
    bias = model.get_layer("gru").cell.bias
    other = one(SEQUENCE, lambda c: _gru(False))(False).get_layer("gru").cell.bias
    rng = np.random.default_rng(zlib.crc32(bias.path.encode()))
    bias.assign(rng.uniform(-0.7, 0.7, other.shape).sum(0))


def _gru(is_changed: bool) -> keras.Layer:
    return L.GRU(4, return_sequences=True, reset_after=not is_changed, name="gru")


def _both_ways(is_changed: bool) -> keras.Layer:
    mode = "ave" if is_changed else "sum"
    return L.Bidirectional(L.LSTM(4, return_sequences=True, name="steps"), merge_mode=mode, name="both")


def _activation_layer(is_changed: bool) -> keras.Layer:
    activation = "sigmoid" if is_changed else "tanh"
    return L.Bidirectional(L.GRU(4, activation, return_sequences=True, name="steps"), name="both")


def _up_to_half(x):
    return ops.clip(x, 0, 0.5)


def _normalize_axis(axis, **kwargs):
    return one((8, 8), lambda c: L.LayerNormalization(axis=axis if c else -1, name="norm", **kwargs))


CHANGES = [
    Change("another merge mode", one(SEQUENCE, _both_ways), "other merge_mode", "both", "'ave' instead of 'sum'"),
    Change("another activation of both layers within", one(SEQUENCE, _activation_layer), "other activation", "both",
           "'sigmoid' instead of 'tanh'"),
    Change("a cut that no activation has", one(SEQUENCE, lambda c: L.Activation(_up_to_half if c else "relu",
           name="act")), "clipped values", "act", "clipped at 0.5"),
    Change("another axis", _normalize_axis(1), "other axis", "norm"),
    Change("two axes", _normalize_axis([1, 2], center=False, scale=False), "other axis", "norm", "[1, 2]"),
    Change("no mean taken off", one((8, 8), lambda c: L.RMSNormalization(epsilon=1e-3, name="norm") if c else
           L.LayerNormalization(center=False, name="norm")), "other operation", "norm", "RMSNormalization",
           assign("norm/scale", lambda scale: np.random.default_rng(zlib.crc32(b"norm/gamma")).uniform(0.5, 1.5, 8))),
    Change("scales in the place of others", one(SEQUENCE, lambda c: L.Dense(32, name="mix")), "quantized (int8)", "mix",
           "scales are exchanged", assign("mix/kernel", _scales_elsewhere)),
    Change("both numbers of a scaling", one(SEQUENCE, lambda c: L.Rescaling(*((2.0, 0.5) if c else (0.5, -1.0)),
           name="scale")), "other scale and offset", "scale", "scale=2 instead of 0.5 and offset=0.5 instead of -1"),
    Change("a reset before the product", one(SEQUENCE, _gru), "other reset_after", "gru", "=False", _summed_bias),
    Change("a threshold", one(SEQUENCE, lambda c: L.ReLU(threshold=0.5 if c else 0.0, name="act")), "other threshold",
           "act", "threshold=0.5"),
    Change("a gelu by a sigmoid", one(SEQUENCE, lambda c: L.Dense(8, quick_gelu if c else "gelu", name="mix")),
           "other activation", "mix", "1.702"),
    Change("logarithms", one(SEQUENCE, lambda c: L.Dense(8, "log_softmax" if c else "softmax", name="mix")),
           "other activation", "mix", "log_softmax"),
    Change("a kernel that is turned", pool_layer(lambda c: L.Conv2D(6, 3, name="conv")), "transposed axes", "conv",
           after=assign("conv/kernel", lambda w: w.transpose(1, 0, 2, 3))),
    Change("heads in another order", functional(SEQUENCE, lambda x, c: L.MultiHeadAttention(2, 4, name="attend")(x, x)),
           "reversed values", "attend/query", after=assign("query/kernel", lambda w: w[:, ::-1])),
    Change("an unbiased variance", pool_layer(lambda c: L.BatchNormalization(name="norm")), "scaled values", "norm",
           after=assign("norm/moving_variance", lambda v: v * 144 / 143)),
    Change("a border on one side", functional((12, 12, 4), lambda x, c: L.Flatten(name="flat")(
        L.ZeroPadding2D(((0, 2), (0, 2)) if c else 1, name="border")(x))), "other padding", "border", "((0, 2), "),
    Change("other strides", pool_layer(lambda c: L.Conv2D(6, 3, 1 if c else 2, name="conv")), "other strides", "conv"),
    Change("strides of one axis", pool_layer(lambda c: L.Conv2D(6, 3, (1, 2) if c else (2, 2), name="conv")),
           "other strides", "conv", "(1, 2) instead of (2, 2)"),
    Change("strides and padding", pool_layer(lambda c: L.Conv2D(6, 3, 1 if c else 2, "valid" if c else "same",
           name="conv")), "other strides and padding", "conv", "padding='valid' instead of 'same'"),
    Change("strides that keep the channels", pool_layer(lambda c: L.DepthwiseConv2D(3, 2 if c else 1, "same",
           name="conv")), "other strides", "conv"),
    Change("a wider border", pool_layer(lambda c: L.ZeroPadding2D(2 if c else 1, name="border")), "other padding",
           "border", "((2, 2), (2, 2))"),
    Change("a narrower cut", pool_layer(lambda c: L.Cropping2D(((1, 2), (2, 2)) if c else 2, name="cut")),
           "other cropping", "cut", "((1, 2), (2, 2))"),
    Change("a larger window", pool_layer(lambda c: L.MaxPooling2D(3 if c else 2, strides=2, name="window")),
           "other pool_size", "window", "(3, 3)"),
]  # fmt: skip
QUICK = {"both numbers of a scaling"}
# Recurrent layers take longest.
LONG = {"another merge mode", "another activation of both layers within", "a reset before the product"}


def _rows():
    for change in CHANGES:
        mark = pytest.mark.exhaustive if change.name in LONG else pytest.mark.slow
        yield pytest.param(change, False, id=change.name, marks=() if change.name in QUICK else mark)
        yield pytest.param(change, True, id=f"{change.name}, by Keras", marks=mark)


@pytest.mark.slow_rows(3)
@pytest.mark.parametrize(("change", "by_keras"), list(_rows()))
@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")  # Keras asks NumPy 2.4 for it
def test_a_change_of_a_layer_is_named_with_the_layer_alone(change, by_keras, tmp_path, plain_worker):
    result = say(*write(replace(change, by_keras=by_keras), tmp_path), plain_worker)
    assert not result.passed
    assert {(finding.cause, finding.layer) for finding in result.findings} == {(change.cause, change.layer)}, result
    assert by_keras or change.description in result.findings[0].evidence


@pytest.mark.slow
def test_a_bias_that_the_graph_adds_twice_is_named_though_it_is_right_itself(tmp_path):
    model = one(SEQUENCE, lambda c: L.Dense(8, name="mix"))(False)
    assign("mix/bias", lambda bias: bias + np.arange(8) / 8)(model)
    file = onnx.load(export_onnx(model, tmp_path / "sound.onnx").path)
    (place,) = [i for i, node in enumerate(file.graph.node) if "mix/bias" in node.input]
    node = file.graph.node[place]
    name, node.output[0] = node.output[0], "once"
    file.graph.node.insert(place + 1, helper.make_node("Add", ["once", "mix/bias"], [name]))
    onnx.save(file, tmp_path / "twice.onnx")
    report = check_parity(model, tmp_path / "twice.onnx", runtimes=["onnxruntime[disabled]"])
    (finding,) = report.findings
    assert (finding.cause, finding.layer) == ("added twice", "mix"), str(report)


@keras.saving.register_keras_serializable("tests")
class Own(L.Layer):
    """A layer of a user's own, with known and unknown attributes of Keras."""

    def __init__(self, wrong=False, temperature=2.0, epsilon=1e-3, **options):
        super().__init__(**options)
        self.wrong, self.temperature, self.epsilon = wrong, temperature, epsilon

    def call(self, x):
        scaled = self.temperature * x / ops.sqrt(ops.mean(x * x, -1, keepdims=True) + self.epsilon)
        return ops.flip(scaled, -1) if self.wrong else scaled

    def get_config(self):
        own = {"wrong": self.wrong, "temperature": self.temperature, "epsilon": self.epsilon}
        return {**super().get_config(), **own}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"wrong": True}, Cause.USERS_ATTRIBUTE),
        ({"temperature": 3.0}, Cause.USERS_ATTRIBUTE),
        ({"epsilon": 0.1}, Cause.OTHER_EPSILON),
    ],
)
def test_an_attribute_that_keras_does_not_know_is_the_users(tmp_path, changed, cause):
    def build(**options):
        keras.utils.set_random_seed(0)
        x = keras.Input((None, 8), name="x")
        return keras.Model(x, L.Dense(3, name="out")(Own(name="own", **options)(L.Dense(8, name="in")(x))))

    report = check_parity(build(), export_onnx(build(**changed), tmp_path / "model.onnx"), runtimes="onnxruntime[all]")
    assert [(finding.cause, finding.layer) for finding in report.findings] == [(cause, "own")]


@pytest.mark.parametrize("name", ["power", "index", "clip", "temperature"])
def test_an_attribute_that_no_layer_of_keras_takes_or_sets_is_the_users(name):
    assert cause_of([name]) is Cause.USERS_ATTRIBUTE
    assert cause_of(["negative_slope"]) == "other negative_slope"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cut", "cause"),
    [
        (lambda x, limit: ops.clip(x, -limit, limit), "other x_min and x_max"),
        (lambda x, limit: ops.minimum(x, limit), "other x2"),
        (lambda x, limit: ops.minimum(x, int(limit) if limit == 6 else limit), "other x2"),
        (lambda x, limit: L.ReLU(6 if limit == 6 else limit)(x), "other max_value"),
        (lambda x, limit: ops.relu6(x) if limit == 6 else ops.clip(x, 0, limit), "other activation"),
        (
            lambda x, limit: L.Dense(8, "relu6")(x) if limit == 6 else L.ReLU(limit)(L.Dense(8)(x)),
            "other activation",
        ),
    ],
)
def test_a_limit_that_is_off_by_little_is_named_and_no_operation_is_missed(tmp_path, cut, cause):
    def build(limit):
        keras.utils.set_random_seed(0)
        x = keras.Input((8,), name="x")
        return keras.Model(x, L.Dense(3, name="head")(cut(10 * x, limit)))

    file = export_onnx(build(6.01), tmp_path / "model.onnx")
    (finding,) = check_parity(build(6.0), file, runtimes="onnxruntime[all]").findings
    assert finding.cause == cause, str(finding)
    assert [each.artifact for each in finding.parameters][-1] == pytest.approx(6.01, rel=1e-3)
