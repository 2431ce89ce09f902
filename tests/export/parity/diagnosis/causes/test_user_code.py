"""A fault is named at its line of a user's code: before an inner layer, or in one of several calls of a function."""

from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.results import Cause, Finding
from tests.export.parity.diagnosis.planted import findings, one_layer


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


class Twice(Gated):
    """A function of its own result."""

    def choose(self, x: Any, one: Any, other: Any) -> Any:
        once = self.gate(x)
        again = self.gate(once)
        return 3.0 * again


class Once(Gated):
    def choose(self, x: Any, one: Any, other: Any) -> Any:
        return 3.0 * self.gate(x)


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


class Again(Residual):
    """Two calls of an inner layer."""

    def call_again(self, x: Any, other: Any) -> Any:
        return self.inner(other)

    def call(self, x: Any) -> Any:
        one, other = ops.sin(x), ops.cos(x)
        return other + self.inner(one) * self.call_again(x, other)


class AgainOfInput(Again):
    def call_again(self, x: Any, other: Any) -> Any:
        return self.inner(x)


class Cell(L.Layer):
    """A gated step of a recurrence."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.gates = L.Dense(6, name="gates")

    def build(self, *shapes: Any) -> None:
        self.gates.build((None, 3))

    def parts(self, h: Any) -> Any:
        return ops.split(h, 2, axis=-1)

    def call(self, x: Any, state: Any) -> Any:
        update, reset = self.parts(ops.sigmoid(self.gates(x)))
        return (1.0 - update) * state + update * ops.tanh(x + reset * state)


class TurnedCell(Cell):
    def parts(self, h: Any) -> Any:
        return ops.split(h, 2, axis=-1)[::-1]


class Recurrence(L.Layer):
    """Runs a cell from a state of zeros."""

    def __init__(self, cell: type[L.Layer], **options: Any) -> None:
        super().__init__(**options)
        self.cell = cell(name="cell")

    def build(self, shape: Any) -> None:
        self.cell.build((None, 3), (None, 3))

    def call(self, x: Any) -> Any:
        state = ops.zeros_like(x[:, 0])
        for step in range(3):
            state = self.cell(x[:, step], state)
        return state


def _check_file(right: Any, wrong: Any, shape: tuple[int, ...], folder: Path) -> list[Finding]:
    """Returns the findings for a model whose file has another layer with equal weights."""
    path = export_onnx(seeded(one_layer(wrong, shape)), folder / "model.onnx").path
    model = seeded(one_layer(right, shape))
    (result,) = check_parity(model, path, runtimes=["onnxruntime[disabled]"]).results
    return list(result.findings)


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
    (finding,) = _check_file(right(name="y"), wrong(name="y"), shape, tmp_path)
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


class Centered(L.Layer):
    """The sum of two windows of a padded line."""

    def call(self, x: Any) -> Any:
        after = 3 // 2
        before = 3 - after
        padded = ops.pad(x, [[0, 0], [before, after], [0, 0]])
        return padded[:, 3:] + ops.sin(padded[:, :-3])


def test_padding_that_another_statement_may_compute_has_no_line() -> None:
    def on_other_sides(inputs: Any) -> Any:
        padded = np.pad(inputs["x"], [[0, 0], [1, 2], [0, 0]])
        return padded[:, 3:] + np.sin(padded[:, :-3])

    (finding,) = findings(one_layer(Centered(name="y"), (6, 2)), on_other_sides)
    assert (finding.cause, finding.line) == (Cause.OTHER_PADDING, None)
    assert Path(finding.file).name == Path(__file__).name


_CALLS = []


def _size() -> int:
    _CALLS.append("size")
    return 2


_SIZE = _size()


class Registered(L.Layer):
    """Has the result of a function of its module, makes parts, and fills an array."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.made: list[int] = []
        self.parts = self.make_part()
        self.size = _SIZE
        self.table = np.zeros(8, np.float32)

    def make_part(self) -> int:
        self.made.append(1)
        return 1

    def call(self, inputs: Any) -> Any:
        parts, factors, table = [], np.ones(8, np.float32), self.table
        x, y = inputs
        for number in range(self.parts):
            factors[number] = 2.0
            parts.append(x[:, : self.size] * factors[number] + y[:, :2] + table[number])
        return ops.reshape(parts[0], (-1, _SIZE))


def test_layer_is_as_before_after_its_code_has_been_changed() -> None:
    inputs = [keras.Input((6,), name="x"), keras.Input((6,), name="z")]
    layer = Registered(name="y")
    model = keras.Model(inputs, layer(inputs))
    attributes = set(vars(layer))
    findings(model, lambda inputs: np.cos(inputs["x"][:, 2:4]) * 3 + inputs["z"][:, :2])
    assert (_CALLS, layer.made, set(vars(layer))) == (["size"], [1], attributes)
    assert not layer.table.any()


class Uncopied(L.Activation):
    def __reduce__(self) -> Any:
        raise NotImplementedError


class Windowed(L.Layer):
    """A window, which `build` computes from the size of the input, after an inner layer that cannot be copied."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.inner = Uncopied("tanh")

    def build(self, shape: Any) -> None:
        steps = shape[-1]
        ages = np.arange(steps) / steps
        self.window = np.exp(-np.square(ages)).astype("float32")

    def call(self, x: Any) -> Any:
        return self.inner(x) * self.window


class SlowlyWindowed(Windowed):
    def build(self, shape: Any) -> None:
        steps = shape[-1]
        ages = np.arange(steps) / (2 * steps)
        self.window = np.exp(-np.square(ages)).astype("float32")


def test_expression_of_local_variables_that_make_a_table_is_named(tmp_path: Path) -> None:
    (finding,) = _check_file(Windowed(name="y"), SlowlyWindowed(name="y"), (12,), tmp_path)
    assert (finding.layer, finding.operation) == ("y", "steps")


class Decaying(L.Layer):
    """A table with a rate in the constructor."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        ages = np.arange(12.0)
        self.table = np.tanh(0.2 * ages)

    def call(self, x: Any) -> Any:
        return ops.tanh(x) * self.table


def test_number_of_a_statement_that_makes_a_table_is_fitted() -> None:
    (finding,) = findings(
        one_layer(Decaying(name="y"), (12,)), lambda inputs: np.tanh(inputs["x"]) * np.tanh(0.35 * np.arange(12.0))
    )
    assert (finding.cause, finding.operation) == (Cause.attribute("constant"), "0.2")
    assert [(each.model, each.artifact) for each in finding.parameters] == [(0.2, 0.35)]


class Gate(L.Layer):
    """Two halves that another line reads."""

    def call(self, x: Any) -> Any:
        value, gate = ops.split(x, 2, axis=-1)
        return value * ops.gelu(gate)


class OtherGate(Gate):
    def call(self, x: Any) -> Any:
        value, gate = ops.split(x, 2, axis=-1)
        return ops.gelu(value) * gate


class Added(L.Layer):
    """A sum whose terms stand in two lines."""

    def call(self, x: Any) -> Any:
        shape = ops.tanh(x)
        return shape + ops.square(x)


class AddedAbsolute(Added):
    def call(self, x: Any) -> Any:
        shape = ops.tanh(x)
        return ops.abs(shape) + ops.square(x)


class Sliced(L.Layer):
    """Two parts, one of which a later line may also take by another name."""

    def call(self, x: Any) -> Any:
        first, second = x[..., :6], x[..., 6:]
        waves = ops.sin(second)
        return ops.tanh(first) + waves


class SlicedOnce(Sliced):
    def call(self, x: Any) -> Any:
        first, _ = x[..., :6], x[..., 6:]
        waves = ops.sin(first)
        return ops.tanh(first) + waves


class Rounds(L.Layer):
    """A loop whose last round may also be left out by its condition."""

    def __init__(self, rounds: int = 3, **options: Any) -> None:
        super().__init__(**options)
        self.rounds = rounds

    def call(self, x: Any) -> Any:
        for number in range(self.rounds):
            if number + 1 < 4:
                x = ops.tanh(x) + 0.5
        return x


class FewerRounds(Rounds):
    def call(self, x: Any) -> Any:
        for number in range(self.rounds):
            if number + 2 < 4:
                x = ops.tanh(x) + 0.5
        return x


@pytest.mark.parametrize(
    ("right", "wrong", "shape", "layer"),
    [
        (Gate, OtherGate, (12,), "y"),
        (Added, AddedAbsolute, (12,), "y"),
        (Sliced, SlicedOnce, (12,), "y"),
        (Rounds, FewerRounds, (12,), "y"),
        (Again, AgainOfInput, (6,), "y/inner/dense"),
        (partial(Recurrence, Cell), partial(Recurrence, TurnedCell), (3, 3), "y/cell"),
    ],
    ids=["gate", "addition", "slice", "loop", "second call", "zero state"],
)
def test_change_that_two_lines_may_have_names_none_of_them(
    right: Any, wrong: Any, shape: tuple[int, ...], layer: str, tmp_path: Path
) -> None:
    (finding,) = _check_file(right(name="y"), wrong(name="y"), shape, tmp_path)
    assert finding.cause is not Cause.UNKNOWN
    assert (finding.layer, finding.line) == (layer, None)


class Pairs(L.Layer):
    """Sums of pairs, whose axes one line gives."""

    def call(self, x: Any) -> Any:
        rows = ops.tanh(x)
        columns = ops.square(x)
        return ops.sum(rows[:, :, None] * columns[:, None, :], axis=-1)


class TurnedPairs(Pairs):
    def call(self, x: Any) -> Any:
        rows = ops.tanh(x)
        columns = ops.square(x)
        return ops.sum(rows[:, None, :] * columns[:, :, None], axis=-1)


def test_exchange_that_one_line_alone_may_have_names_the_line(tmp_path: Path) -> None:
    (finding,) = _check_file(Pairs(name="y"), TurnedPairs(name="y"), (12,), tmp_path)
    assert finding.layer == "y"
    assert "rows[:, :, None]" in str(finding.operation)


class Waves(L.Layer):
    """A function of numbers so large that its sine would be another one for the next number."""

    def call(self, x: Any) -> Any:
        return ops.tanh(10.0 * x)


def test_case_in_which_a_change_is_unstable_refutes_nothing() -> None:
    def compute(inputs: Any) -> np.ndarray:
        return np.sin(np.nextafter(np.float32(10.0) * inputs["x"], np.float32(np.inf)))

    (finding,) = findings(one_layer(Waves(name="y"), (12,)), compute)
    assert (finding.cause, finding.operation) == (Cause.OTHER_OPERATION, "ops.tanh(10.0 * x)")


class Spectrum(L.Layer):
    """A spectrum of a fixed length, for which 0 ends the process."""

    def call(self, x: Any) -> Any:
        real, imaginary = ops.rfft(x, 8)
        return real * 2.0 - imaginary


def test_no_change_of_a_layer_ends_the_process() -> None:
    def sum_of_parts(inputs: Any) -> Any:
        found = np.fft.rfft(inputs["x"], 8)
        return found.real * 2.0 + found.imag

    (finding,) = findings(one_layer(Spectrum(name="y"), (8,)), sum_of_parts)
    assert finding.operation == "real * 2.0 - imaginary"


class Distances(L.Layer):
    """Adds the distances of positions."""

    def call(self, x: Any) -> Any:
        places = ops.arange(4, dtype="float32")
        distances = places[None, :] - places[:, None]
        return x + distances


def test_factor_that_several_lines_may_have_names_none_of_them() -> None:
    places = np.arange(4.0)
    model = one_layer(Distances(name="y"), (4, 4))
    (finding,) = findings(model, lambda inputs: inputs["x"] + 3 * (places[None, :] - places[:, None]))
    assert (finding.cause, finding.line, finding.operation) == (Cause.SCALED_VALUES, None, None)
    assert Path(finding.file).name == Path(__file__).name


class Soft(L.Layer):
    """A smooth step."""

    def call(self, x: Any) -> Any:
        return ops.softplus(x) * 2


def test_function_that_leaves_a_part_of_the_difference_is_no_cause() -> None:
    model = one_layer(Soft(name="y"), (6,))
    (finding,) = findings(model, lambda inputs: 2 * np.maximum(inputs["x"], 0) + 0.01 * np.sin(3 * inputs["x"]))
    assert finding.cause is Cause.UNKNOWN


def test_tensor_that_two_lines_may_read_names_none_of_them(tmp_path: Path) -> None:
    (finding,) = _check_file(Twice(name="y"), Once(name="y"), (6,), tmp_path)
    assert (finding.cause, finding.line, finding.operation) == (Cause.OPERATION_LEFT_OUT, None, None)
