"""A fault that two lines of a user's code may have is named without its line."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export.results import Cause
from tests.export.parity.diagnosis.causes.test_user_code import Gated, Residual
from tests.export.parity.diagnosis.changes import file_findings
from tests.export.parity.diagnosis.planted import findings, one_layer

pytestmark = pytest.mark.slow


class Twice(Gated):
    """A function of its own result."""

    def choose(self, x: Any, one: Any, other: Any) -> Any:
        once = self.gate(x)
        again = self.gate(once)
        return 3.0 * again


class Once(Gated):
    def choose(self, x: Any, one: Any, other: Any) -> Any:
        return 3.0 * self.gate(x)


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


class Costs(L.Layer):
    """Windows of shifted rows and columns, in the order of two loops."""

    def call(self, x: Any) -> Any:
        costs = []
        for row in range(2):
            for column in range(2):
                costs.append(ops.tanh(x[:, row : row + 3, column : column + 4]))
        return ops.stack(costs, axis=-1)


class ColumnsFirst(Costs):
    def call(self, x: Any) -> Any:
        costs = []
        for column in range(2):
            for row in range(2):
                costs.append(ops.tanh(x[:, row : row + 3, column : column + 4]))
        return ops.stack(costs, axis=-1)


class Ages(L.Layer):
    """A mean with weights that decay with the age of a row."""

    def call(self, x: Any) -> Any:
        count = x.shape[1]
        ages = ops.arange(count - 1, -1, -1, dtype="float32")
        weights = ops.exp(-ages / 4.0)
        shares = weights / ops.sum(weights)
        return ops.sum(shares[:, None] * x, axis=1)


class OtherAges(Ages):
    def call(self, x: Any) -> Any:
        count = x.shape[1]
        ages = ops.arange(count, dtype="float32")
        weights = ops.exp(-ages / 4.0)
        shares = weights / ops.sum(weights)
        return ops.sum(shares[:, None] * x, axis=1)


class Peaks(L.Layer):
    """The values that are as large as the largest ones around them."""

    def call(self, x: Any) -> Any:
        largest = ops.max_pool(x, 3, strides=1, padding="same")
        return ops.tanh(ops.where(x >= largest, x, 0.0)) + x


class AllPeaks(Peaks):
    def call(self, x: Any) -> Any:
        largest = ops.max_pool(x, 3, strides=1, padding="same")
        return ops.tanh(ops.where(x <= largest, x, 0.0)) + x


class Length(L.Layer):
    """A vector that is scaled by its length if its maker asks for it."""

    def __init__(self, normalize: bool, **options: Any) -> None:
        super().__init__(**options)
        self.normalize = normalize

    def call(self, x: Any) -> Any:
        x = ops.tanh(x)
        if self.normalize:
            x, size = x / (1.0 + ops.sum(x * x, axis=-1, keepdims=True)), 2.0
            x = x * size
        return x + 0.5


@pytest.mark.parametrize(
    ("right", "wrong", "shape", "layer"),
    [
        (Gate, OtherGate, (12,), "y"),
        (Added, AddedAbsolute, (12,), "y"),
        (Sliced, SlicedOnce, (12,), "y"),
        (Rounds, FewerRounds, (12,), "y"),
        (Again, AgainOfInput, (6,), "y/inner/dense"),
        (partial(Recurrence, Cell), partial(Recurrence, TurnedCell), (3, 3), "y/cell"),
        (Costs, ColumnsFirst, (4, 5), "y"),
        (Ages, OtherAges, (5, 3), "y"),
        (partial(Length, False), partial(Length, True), (6,), "y"),
        (Peaks, AllPeaks, (6, 4), "y"),
    ],
    ids=["gate", "addition", "slice", "loop", "second call", "zero state", "loops", "table", "flag", "mask"],
)
def test_change_that_two_lines_may_have_names_none_of_them(
    right: Any, wrong: Any, shape: tuple[int, ...], layer: str, tmp_path: Path
) -> None:
    (finding,) = file_findings(right(name="y"), wrong(name="y"), shape, tmp_path)
    assert finding.cause is not Cause.UNKNOWN
    assert (finding.layer, finding.line) == (layer, None)


def test_tensor_that_two_lines_may_read_names_none_of_them(tmp_path: Path) -> None:
    (finding,) = file_findings(Twice(name="y"), Once(name="y"), (6,), tmp_path)
    assert (finding.cause, finding.line, finding.operation) == (Cause.OPERATION_LEFT_OUT, None, None)


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
    (finding,) = file_findings(Pairs(name="y"), TurnedPairs(name="y"), (12,), tmp_path)
    assert finding.layer == "y"
    assert "rows[:, :, None]" in str(finding.operation)


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


class Masked(L.Layer):
    """Adds a table, which a comparison in another line makes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        steps = np.arange(4.0)
        later = steps[:, None] < steps[None, :]
        self.table = np.where(later, -4.0, 0.0).astype("float32")

    def call(self, x: Any) -> Any:
        return ops.softmax(x + self.table, axis=-1)


def test_table_that_is_left_out_or_has_only_zeros_names_no_line() -> None:
    def without_table(inputs: Any) -> Any:
        shares = np.exp(inputs["x"] - inputs["x"].max(axis=-1, keepdims=True))
        return shares / shares.sum(axis=-1, keepdims=True)

    (finding,) = findings(one_layer(Masked(name="y"), (4, 4)), without_table)
    assert (finding.cause, finding.line) == (Cause.OPERATION_LEFT_OUT, None)
    assert Path(finding.file).name == Path(__file__).name


class Field(L.Layer):
    """A function of a number that its caller gives."""

    def build(self, shape: Any) -> None:
        self.rate = self.add_weight(shape=(shape[-1],), name="rate")

    def call(self, x: Any, t: float = 0.0) -> Any:
        return ops.tanh(x + t * self.rate)


class Timed(L.Layer):
    """Gives a time to a field."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.field = Field(name="field")

    def build(self, shape: Any) -> None:
        self.field.build(shape)

    def call(self, x: Any) -> Any:
        time = 0.25
        later = time + 0.5
        return self.field(x, t=later)


class LaterTimed(Timed):
    def call(self, x: Any) -> Any:
        time = 0.25
        later = 2 * time + 0.5
        return self.field(x, t=later)


def test_number_that_the_caller_gives_or_the_layer_scales_names_no_line(tmp_path: Path) -> None:
    (finding,) = file_findings(Timed(name="y"), LaterTimed(name="y"), (6,), tmp_path)
    assert (finding.layer, finding.line) == ("y/field", None)
    assert Path(finding.file).name == Path(__file__).name
