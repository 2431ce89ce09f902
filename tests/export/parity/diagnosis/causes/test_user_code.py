"""A fault is named at its line of a user's code: before an inner layer, or in one of several calls of a function."""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export.results import Cause
from tests.export.parity.diagnosis.changes import file_findings
from tests.export.parity.diagnosis.planted import findings, one_layer

pytestmark = pytest.mark.slow


class Causal(L.Layer):
    """A convolution after a padding."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.conv = L.Conv1D(3, 2, name="conv")

    def build(self, shape: Any) -> None:
        self.conv.build((None, None, shape[-1]))

    def pad_input(self, x: Any) -> Any:
        return ops.pad(x, [[0, 0], [1, 0], [0, 0]])

    def call(self, x: Any) -> Any:
        return ops.tanh(self.conv(self.pad_input(x)))


class Late(Causal):
    def pad_input(self, x: Any) -> Any:
        return ops.pad(x, [[0, 0], [0, 1], [0, 0]])


class Parts(L.Layer):
    """A layer of each part of a vector."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.dense = L.Dense(3, name="dense")

    def build(self, shape: Any) -> None:
        self.dense.build((None, 2, shape[-1] // 2))

    def parts(self, x: Any) -> Any:
        return ops.reshape(x, (-1, 2, 4))

    def call(self, x: Any) -> Any:
        return ops.tanh(self.dense(self.parts(x)))


class Interleaved(Parts):
    def parts(self, x: Any) -> Any:
        return ops.swapaxes(ops.reshape(x, (-1, 4, 2)), 1, 2)


class Halves(L.Layer):
    """One half with the other as its gate."""

    def halves(self, h: Any) -> Any:
        return h[..., :3], h[..., 3:]

    def call(self, x: Any) -> Any:
        h = ops.tanh(x)
        one, other = self.halves(h)
        return one * ops.exp(other)


class Alternating(Halves):
    def halves(self, h: Any) -> Any:
        return h[..., ::2], h[..., 1::2]


class Inner(L.Layer):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.dense = L.Dense(6, name="dense")

    def build(self, shape: Any) -> None:
        self.dense.build(shape)

    def call(self, x: Any) -> Any:
        return ops.tanh(self.dense(x))


class Residual(L.Layer):
    """Adds an inner layer of a sum."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.inner = Inner(name="inner")

    def build(self, shape: Any) -> None:
        self.inner.build(shape)

    def combine(self, x: Any, h: Any) -> Any:
        return x * h + self.inner(h)

    def call(self, x: Any) -> Any:
        return self.combine(x, x + ops.sin(x))


class OfInput(Residual):
    def combine(self, x: Any, h: Any) -> Any:
        return x * h + self.inner(x)


class Chain(Residual):
    """Two inner layers, of which the second one has a sum as its input."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.first = Inner(name="first")

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.first.build(shape)

    def add(self, x: Any) -> Any:
        return x + self.first(x)

    def call(self, x: Any) -> Any:
        h = self.add(x)
        return h + self.inner(h)


class OfOneTerm(Chain):
    def add(self, x: Any) -> Any:
        return self.first(x)


class Undone(L.Layer):
    """Computes again what the layers before it have computed."""

    def divide(self, x: Any) -> Any:
        return x / 3.0

    def call(self, x: Any) -> Any:
        logarithm = ops.log(self.divide(x))
        return x + ops.tanh(logarithm)


class Undivided(Undone):
    def divide(self, x: Any) -> Any:
        return x


def _after_layers(layer: type[L.Layer], name: str) -> keras.Model:
    before = [L.Rescaling(0.5), L.Activation("exponential"), L.Rescaling(3.0)]
    return keras.Sequential([*before, layer(name="inner")], name=name)


class Lengths(L.Layer):
    """Scales values by their own length and by that of a weight."""

    def build(self, shape: Any) -> None:
        self.offset = self.add_weight(name="offset", shape=(shape[-1],))

    def scale(self, own: Any, offset: Any) -> Any:
        return ops.exp(-own) + 0.5 * offset

    def call(self, x: Any) -> Any:
        own, offset = (ops.sum(each * each, axis=-1, keepdims=True) for each in (x, self.offset))
        return x * self.scale(own, offset)


class OfOwn(Lengths):
    def scale(self, own: Any, offset: Any) -> Any:
        return ops.exp(-own) + 0.5 * own


class Columns(L.Layer):
    """Adds the columns one by one."""

    def column(self, x: Any, number: int) -> Any:
        return x[:, number : number + 1]

    def call(self, x: Any) -> Any:
        total = x[:, 3:]
        for number in range(3):
            total = ops.tanh(total + ops.exp(self.column(x, number)))
        return total


class Backwards(Columns):
    def column(self, x: Any, number: int) -> Any:
        return x[:, 2 - number : 3 - number]


class Smooth(L.Layer):
    """The running means of rows."""

    def build(self, shape: Any) -> None:
        self.rate = self.add_weight(name="rate", shape=(shape[-1],))

    def mix(self, rate: Any, last: Any, now: Any) -> Any:
        return (1.0 - rate) * last + rate * now

    def call(self, x: Any) -> Any:
        rate, last, means = ops.sigmoid(self.rate), x[:, 0], []
        for number in range(5):
            last = self.mix(rate, last, x[:, number])
            means.append(last)
        return ops.tanh(ops.stack(means, axis=1))


class Exchanged(Smooth):
    def mix(self, rate: Any, last: Any, now: Any) -> Any:
        return rate * last + (1.0 - rate) * now


class Parameters(L.Layer):
    """Three outputs of one tensor."""

    def parts(self, x: Any) -> Any:
        return ops.split(x, 3, axis=-1)

    def call(self, x: Any) -> Any:
        mean, width, slope = self.parts(x)
        return mean, ops.softplus(width), ops.tanh(slope)


class OtherParts(Parameters):
    def parts(self, x: Any) -> Any:
        mean, slope, width = ops.split(x, 3, axis=-1)
        return mean, width, slope


class Joined(L.Layer):
    """One value of three outputs."""

    def __init__(self, inner: L.Layer, **options: Any) -> None:
        super().__init__(**options)
        self.inner = inner

    def call(self, x: Any) -> Any:
        mean, width, slope = self.inner(x)
        return mean + width * slope


def _join(inner: type[L.Layer], name: str) -> L.Layer:
    return Joined(inner(name="inner"), name=name)


class Gated(L.Layer):
    """A function, which reads its argument two times, of one of three tensors."""

    def gate(self, x: Any) -> Any:
        return ops.tanh(x) + 0.3 * ops.square(x)

    def choose(self, x: Any, one: Any, other: Any) -> Any:
        return self.gate(one)

    def call(self, x: Any) -> Any:
        one, other = ops.sin(x), ops.cos(x)
        return other + one + self.choose(x, one, other)


class GatedOther(Gated):
    def choose(self, x: Any, one: Any, other: Any) -> Any:
        return self.gate(other)


class Damped(L.Layer):
    """A function with a factor of its argument."""

    def damp(self, y: Any) -> Any:
        return ops.sin(y) - 0.1 * y

    def call(self, x: Any) -> Any:
        return ops.tanh(self.damp(x))


class MoreDamped(Damped):
    def damp(self, y: Any) -> Any:
        return ops.sin(y) - 0.3 * y


class Products(L.Layer):
    """A product of rows in order."""

    def product(self, one: Any, other: Any) -> Any:
        return ops.sin(one + 2.0 * other) * ops.exp(-ops.square(one)) + other

    def next(self, last: Any, row: Any) -> Any:
        return self.product(last, row)

    def call(self, x: Any) -> Any:
        last, every = x[:, 0], []
        for number in range(3):
            last = ops.tanh(self.next(last, 0.7 * x[:, number + 1]))
            every.append(last)
        return ops.stack(every, axis=1)


class TurnedProducts(Products):
    def next(self, last: Any, row: Any) -> Any:
        return self.product(row, last)


class Padded(L.Layer):
    """A sum of neighbors, with the mode of the padding as an argument of a function."""

    def pad(self, x: Any, mode: str) -> Any:
        return ops.pad(x, [[0, 0], [1, 0], [0, 0]], mode=mode)

    def pad_input(self, x: Any) -> Any:
        return self.pad(x, "symmetric")

    def call(self, x: Any) -> Any:
        return ops.tanh(self.pad_input(x)[:, :-1] + x)


class WithZeros(Padded):
    def pad_input(self, x: Any) -> Any:
        return self.pad(x, "constant")


@pytest.mark.parametrize(
    ("right", "wrong", "shape", "layer", "operation"),
    [
        (Causal, Late, (5, 4), "y/conv", "ops.pad(x, [[0, 0], [1, 0], [0, 0]])"),
        (Parts, Interleaved, (8,), "y/dense", "ops.reshape(x, (-1, 2, 4))"),
        (Halves, Alternating, (6,), "y", "h[..., :3]"),
        (Residual, OfInput, (6,), "y/inner/dense", "self.inner(h)"),
        (Chain, OfOneTerm, (6,), "y", "x + self.first(x)"),
        (partial(_after_layers, Undone), partial(_after_layers, Undivided), (6,), "y/inner", "x / 3.0"),
        (Lengths, OfOwn, (6,), "y", "0.5 * offset"),
        (Columns, Backwards, (4,), "y", "x[:, number : number + 1]"),
        (Smooth, Exchanged, (5, 4), "y", "rate * now"),
        (partial(_join, Parameters), partial(_join, OtherParts), (6,), "y/inner", "ops.split(x, 3, axis=-1)"),
        (Gated, GatedOther, (6,), "y", "self.gate(one)"),
        (Damped, MoreDamped, (6,), "y", "0.1 * y"),
        (Products, TurnedProducts, (4, 3), "y", "self.product(last, row)"),
        (Padded, WithZeros, (5, 3), "y", 'self.pad(x, "symmetric")'),
    ],
    ids=[
        "padding",
        "order",
        "halves",
        "argument",
        "term",
        "inverse",
        "other shape",
        "loop",
        "weights",
        "outputs",
        "call",
        "factor",
        "arguments",
        "mode",
    ],
)
def test_line_that_computes_a_wrong_input_is_named(
    right: Any, wrong: Any, shape: tuple[int, ...], layer: str, operation: str, tmp_path: Path
) -> None:
    (finding,) = file_findings(right(name="y"), wrong(name="y"), shape, tmp_path)
    assert (finding.layer, finding.operation) == (layer, operation)


class Steps(L.Layer):
    """Two steps of a function at different times."""

    def step(self, x: Any, time: float) -> Any:
        return ops.tanh(x + time)

    def call(self, x: Any) -> Any:
        x = self.step(x, 0.25)
        return self.step(x, 0.5)


def test_call_of_a_function_that_is_right_in_its_other_calls_is_named() -> None:
    model = one_layer(Steps(name="y"), (6,))
    (finding,) = findings(model, lambda inputs: np.tanh(np.tanh(inputs["x"] + 0.25) + 0.75))
    assert finding.operation == "self.step(x, 0.5)"


class Units(L.Layer):
    """The products of two vectors of length one."""

    def unit(self, x: Any) -> Any:
        return x / ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + 0.1)

    def call(self, x: Any) -> Any:
        one = self.unit(ops.sin(x))
        other = self.unit(ops.cos(x))
        return one * other


def test_call_of_a_function_that_the_artifact_leaves_out_is_named_and_not_its_reader() -> None:
    model = one_layer(Units(name="y"), (6,))
    unit = model.get_layer("y").unit
    (finding,) = findings(model, lambda inputs: unit(np.sin(inputs["x"])) * np.cos(inputs["x"]))
    assert (finding.cause, finding.operation) == (Cause.OPERATION_LEFT_OUT, "self.unit(ops.cos(x))")


class Root(L.Layer):
    """The root of a positive number."""

    def call(self, x: Any) -> Any:
        h = ops.tanh(x)
        return ops.sqrt(ops.square(h) + 0.25)


def test_line_whose_change_gives_nan_is_named() -> None:
    def compute(inputs: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return np.sqrt(np.tanh(inputs["x"]) + np.float32(0.25))

    (finding,) = findings(one_layer(Root(name="y"), (6,)), compute)
    assert (finding.cause, finding.operation) == (Cause.OPERATION_LEFT_OUT, "ops.square(h)")


class Shares(L.Layer):
    """Two functions of one tensor in two lines."""

    def shares(self, h: Any) -> Any:
        return ops.exp(h)

    def call(self, x: Any) -> Any:
        h = ops.tanh(x)
        waves = ops.sin(h)
        shares = self.shares(h)
        return shares + ops.square(waves)


class OtherShares(Shares):
    def shares(self, h: Any) -> Any:
        return ops.square(ops.cos(3.0 * h)) + ops.log(2.0 + h)


def test_line_of_an_unknown_change_is_named_if_other_lines_prove_its_operands(tmp_path: Path) -> None:
    (finding,) = file_findings(Shares(name="y"), OtherShares(name="y"), (6,), tmp_path)
    assert (finding.cause, finding.operation) == (Cause.UNKNOWN, "ops.exp(h)")


class Step(L.Layer):
    """A step of a recurrence that Keras runs."""

    state_size = output_size = 3

    def build(self, *shapes: Any) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(3, 3))

    def call(self, x: Any, states: Any) -> Any:
        (last,) = states
        now = ops.tanh(ops.matmul(x, self.kernel))
        mixed = 0.5 * now + ops.square(last)
        return mixed, [mixed]


class OtherStep(Step):
    def call(self, x: Any, states: Any) -> Any:
        now = ops.tanh(ops.matmul(x, self.kernel))
        mixed = 0.5 * now + ops.square(now)
        return mixed, [mixed]


def test_line_of_a_cell_is_named_in_a_recurrence_of_keras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged = []
    monkeypatch.setattr(logging.getLogger("tensorflow"), "handle", logged.append)
    right, wrong = (L.RNN(cell(name="cell"), name="y") for cell in (Step, OtherStep))
    (finding,) = file_findings(right, wrong, (4, 3), tmp_path)
    assert (finding.layer, finding.operation) == ("y", "last")
    assert not logged


class Distance(L.Layer):
    """A distance with a factor of its own, of a function with another factor."""

    width = 0.6

    def half(self, x: Any) -> Any:
        return 0.5 * ops.log(1.5 + x)

    def call(self, x: Any) -> Any:
        h = ops.tanh(x)
        return 2.0 / self.width**0.5 * self.half(h)


class WithoutWidth(Distance):
    def call(self, x: Any) -> Any:
        h = ops.tanh(x)
        return 2.0 * self.half(h)


def test_number_that_nobody_writes_leads_to_the_line_that_computes_it(tmp_path: Path) -> None:
    (finding,) = file_findings(Distance(name="y"), WithoutWidth(name="y"), (6,), tmp_path)
    assert finding.operation is not None
    assert finding.operation.startswith("2.0 / self.width")
