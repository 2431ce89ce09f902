"""One thing about a layer changed, in models of many kinds: the change is named, and the layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export import check_parity, export_onnx

IMAGE, SEQUENCE = (12, 12, 4), (None, 8)


def approximate_gelu(x):
    return keras.activations.gelu(x, approximate=True)


def softmax_of_rows(x):
    return ops.softmax(x, axis=1)


class Subclassed(keras.Model):
    """A model that cannot be made again, and whose own code computes between its layers."""

    def __init__(self, layers: list[Any], code: Callable[..., Any], shape: tuple[int | None, ...]) -> None:
        super().__init__(name="net")
        self.parts, self.code = layers, code
        self.input_spec = keras.layers.InputSpec(shape=(None, *shape), dtype="float32")
        self(np.zeros([2, *(6 if size is None else size for size in shape)], np.float32))

    def call(self, x):
        return self.code(x, *self.parts)

    def get_config(self):
        raise NotImplementedError


@dataclass(frozen=True)
class Change:
    """A change, as two models of the same weights, the cause and the layer that are to be named."""

    name: str
    build: Callable[[bool], keras.Model]
    cause: str
    layer: str
    description: str = ""
    after: Callable[[keras.Model], None] = lambda model: None
    shown: str | None = None  # the layer after it, where the artifact holds what is right as well, beside the way


def _functional(shape, layers):
    def build(is_changed: bool) -> keras.Model:
        x = keras.Input(shape, name="x")
        return keras.Model(x, L.Dense(3, name="head")(layers(x, is_changed)), name="net")

    return build


def _one(shape, layer):
    return _functional(shape, lambda x, is_changed: layer(is_changed)(x))


def _pool_layer(layer):
    return _functional(IMAGE, lambda x, is_changed: L.GlobalAveragePooling2D(name="pool")(layer(is_changed)(x)))


def _subclass_change(shape, layers, code, changed_code=None):
    return lambda is_changed: Subclassed(layers(), (changed_code if is_changed else None) or code, shape)


def _assign(path: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[keras.Model], None]:
    def assign(model: keras.Model) -> None:
        (variable,) = [v for v in model.variables if v.path.endswith(path)]
        variable.assign(change(np.asarray(variable)))

    return assign


def _swap(model: keras.Model) -> None:
    one, two = model.get_layer("one").kernel, model.get_layer("two").kernel
    kept = one.numpy()
    one.assign(two)
    two.assign(kept)


def _swap_gates(model: keras.Model) -> None:
    cell = model.get_layer("lstm").cell
    for variable in (cell.kernel, cell.recurrent_kernel, cell.bias):
        i, f, c, o = np.split(variable.numpy(), 4, -1)
        variable.assign(np.concatenate([i, o, f, c], -1))


def _omit_scale(x, is_changed):
    attend = L.MultiHeadAttention(2, 4, name="attend")
    attend.build(x.shape, x.shape)
    attend._inverse_sqrt_key_dim = 1.0 if is_changed else attend._inverse_sqrt_key_dim
    return attend(x, x)


def _int8_with(factor: float, zero: int) -> Callable[[np.ndarray], np.ndarray]:
    def quantize(w: np.ndarray) -> np.ndarray:
        scale = np.abs(w).max() / 127
        return (np.rint(w / scale) + zero) * scale * factor

    return quantize


def _after_relu(x, is_changed):
    mixed = L.Dense(8, "relu", name="mix")(x)
    return mixed if is_changed else L.Softmax(name="act")(mixed)


def _residual(x, is_changed):
    mixed = L.Dense(8, name="mix")(x)
    return mixed if is_changed else L.Add(name="add")([x, mixed])


def _merge_layers(x, is_changed):
    kind = L.Maximum if is_changed else L.Add
    return kind(name="plus")([L.Dense(4, name="p")(x), L.Dense(4, name="q")(x)])


def _normalize():
    return [L.Conv2D(6, 3, name="conv"), L.BatchNormalization(name="norm"), L.Dense(3, name="head")]


def _fold_change(build):
    def make(is_changed):
        convolution, epsilon = build(is_changed)
        x = keras.Input(IMAGE, name="x")
        y = L.BatchNormalization(epsilon=epsilon, name="norm")(convolution(x))
        return keras.Model(x, L.Dense(3, name="head")(L.GlobalAveragePooling2D(name="pool")(y)))

    return make


def _mix_layers():
    return [L.Dense(8, name="mix"), L.Dense(3, name="head")]


def _sequential(is_changed):
    return keras.Sequential(
        [keras.Input(SEQUENCE, name="x"), L.Dense(8, name="one"), L.Dense(8, name="two"), L.Dense(3, name="head")]
    )


CHANGES = [
    Change("a variance dropped", _subclass_change((8, 8, 4), _normalize, lambda x, c, n, h: h(n(c(x)))),
           "missing values", "norm", "moving_variance", _assign("moving_variance", np.ones_like), shown="conv"),
    Change("a deviation for a variance", _subclass_change((8, 8, 4), _normalize, lambda x, c, n, h: h(n(c(x)))),
           "changed values", "norm", "the root of", _assign("moving_variance", np.sqrt), shown="conv"),
    Change("another epsilon", _fold_change(lambda c: (L.Conv2D(6, 3, name="conv"), 1e-1 if c else 1e-3)),
           "other epsilon", "norm", "epsilon=0.1", shown="conv"),
    Change("another dilation before a normalization", _fold_change(
        lambda c: (L.Conv2D(6, 3, 1, "same", None, 1 + c, name="conv"), 1e-3)),
        "other dilation_rate", "conv", "(2, 2)"),
    Change("other strides before a normalization", _fold_change(
        lambda c: (L.Conv2D(6, 3, 1 + c, "same", name="conv"), 1e-3)), "other strides", "conv"),
    Change("other groups", _one(IMAGE, lambda c: L.GroupNormalization(2 if c else 4, name="norm")),
           "other groups", "norm", "groups=2"),
    Change("an approximate gelu", _one(SEQUENCE, lambda c: L.Dense(8, approximate_gelu if c else "gelu", name="mix")),
           "other activation", "mix", "gelu(approximate=True)"),
    Change("an exact gelu", _one(SEQUENCE, lambda c: L.Dense(8, "gelu" if c else approximate_gelu, name="mix")),
           "other activation", "mix", "'gelu' instead of 'approximate_gelu'"),
    Change("a gelu between layers", _subclass_change(
        SEQUENCE, _mix_layers, lambda x, m, h: h(ops.gelu(m(x), False)), lambda x, m, h: h(ops.gelu(m(x), True))),
        "other activation", "head", "of the output of 'mix'"),
    Change("a softmax over rows", _one(SEQUENCE, lambda c: L.Dense(8, softmax_of_rows if c else "softmax", name="mix")),
           "other activation", "mix", "softmax(axis=1)"),
    Change("another alpha", _one(SEQUENCE, lambda c: L.ELU(0.5 if c else 1.0, name="act")),
           "other alpha", "act", "alpha=0.5"),
    Change("axes that are not turned", _functional((8, 8), lambda x, c: x if c else L.Permute((2, 1), name="turn")(x)),
           "layer left out", "turn", "the layer's input", shown="head"),
    Change("a relu6", _functional(SEQUENCE, lambda x, c: L.ReLU(6.0 if c else None, name="act")(8 * x)),
           "other max_value", "act", "max_value=6.0 instead of None"),
    Change("another slope", _one(SEQUENCE, lambda c: L.LeakyReLU(0.17 if c else 0.3, name="act")),
           "other negative_slope", "act", "=0.17"),
    Change("a softmax dropped after a relu", _functional(SEQUENCE, _after_relu), "layer left out", "act"),
    Change("a residual dropped", _functional(SEQUENCE, _residual), "layer left out", "add", "('mix') of 2"),
    Change("a residual dropped in a call", _subclass_change(
        SEQUENCE, _mix_layers, lambda x, m, h: h(x + m(x)), lambda x, m, h: h(m(x))),
        "operation left out", "head", "the output of 'mix'"),
    Change("a scale dropped", _functional(SEQUENCE, _omit_scale), "other inverse_sqrt_key_dim", "attend", "=1 instead"),
    Change("kernels swapped in a model of another name", _sequential, "another weight", "one", "two/kernel", _swap),
    Change("gates swapped", _one(SEQUENCE, lambda c: L.LSTM(4, return_sequences=True, name="lstm")),
           "reordered values", "lstm", "another order", _swap_gates),
    Change("another dilation", _one(IMAGE, lambda c: L.Conv2D(6, 3, 1, "same", None, 1 + c, name="conv")),
           "other dilation_rate", "conv", "(2, 2)"),
    Change("other strides", _pool_layer(lambda c: L.Conv2D(6, 3, 1 + c, "same", name="conv")), "other strides", "conv"),
    Change("no padding", _pool_layer(lambda c: L.Conv2D(6, 3, padding="valid" if c else "same", name="conv")),
           "other padding", "conv", "another shape"),
    Change("padding on both sides", _functional(IMAGE, lambda x, c: L.Conv2D(6, 3, 2, name="conv")(
        L.ZeroPadding2D(1)(x)) if c else L.Conv2D(6, 3, 2, "same", name="conv")(x)),
        "other padding", "conv", "as much before as after"),
    Change("a maximum for a mean", _one(IMAGE, lambda c: (L.MaxPooling2D if c else L.AveragePooling2D)(2, name="pool")),
           "other operation", "pool", "MaxPooling2D"),
    Change("a maximum for a sum", _functional(SEQUENCE, _merge_layers), "other operation", "plus", "the larger"),
    Change("a wrong scale", _one(SEQUENCE, lambda c: L.Dense(32, name="mix")),
           "quantized (int8)", "mix", "integers are right", _assign("mix/kernel", _int8_with(1.05, 0))),
    Change("a wrong zero point", _one(SEQUENCE, lambda c: L.Dense(32, name="mix")),
           "quantized (int8)", "mix", "the zero point 3", _assign("mix/kernel", _int8_with(1.0, 3))),
]  # fmt: skip
QUICK = {"an approximate gelu"}


def _seeded(model: keras.Model) -> keras.Model:
    """Gives weights that tell one from another, the same for both models."""
    rng = np.random.default_rng(5)
    for variable in model.variables:
        is_positive = "variance" in variable.path or "gamma" in variable.path
        variable.assign(rng.uniform(*((0.5, 1.5) if is_positive else (-0.7, 0.7)), variable.shape))
    return model


@pytest.mark.slow_rows(5)
@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
@pytest.mark.parametrize("change", [
    pytest.param(c, id=c.name, marks=() if c.name in QUICK else pytest.mark.slow) for c in CHANGES
])  # fmt: skip
def test_a_change_of_a_layer_is_named_with_the_layer(change, tmp_path):
    model, changed = (_seeded(change.build(is_changed)) for is_changed in (False, True))
    change.after(changed)
    artifact = export_onnx(changed, tmp_path / "changed.onnx")
    report = check_parity(model, artifact, runtimes=["onnxruntime[disabled]"])
    assert not report.passed
    first, *others = report.findings
    assert (first.cause, first.layer) == (change.cause, change.layer), str(report)
    assert change.description in first.evidence
    assert {each.cause for each in others} <= {change.cause}, str(report)
    assert report.results[0].first_layer_that_differs == (change.shown or change.layer)


def test_few_of_them_are_unknown():
    assert sum(change.cause == "unknown" for change in CHANGES) <= len(CHANGES) / 20
