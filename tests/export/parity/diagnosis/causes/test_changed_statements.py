"""Changed statements of a user's code explain a fault, and leave the layer and the process as before."""

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
    (finding,) = file_findings(Windowed(name="y"), SlowlyWindowed(name="y"), (12,), tmp_path)
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


class Rates(L.Layer):
    """A factor of each column, in the order that the constructor gives."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.table = (0.5, 1.0, 2.0, 4.0)

    def call(self, x: Any) -> Any:
        return ops.tanh(x) * ops.convert_to_tensor(self.table)


def test_order_of_a_table_is_at_fault_where_the_table_is_made() -> None:
    model = one_layer(Rates(name="y"), (4,))
    (finding,) = findings(model, lambda inputs: np.tanh(inputs["x"]) * (4.0, 2.0, 1.0, 0.5))
    assert finding.operation == "(0.5, 1.0, 2.0, 4.0)"


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


class Waves(L.Layer):
    """A function of numbers so large that its sine would be another one for the next number."""

    def call(self, x: Any) -> Any:
        return ops.tanh(10.0 * x)


def test_case_in_which_a_change_is_unstable_refutes_nothing() -> None:
    def compute(inputs: Any) -> np.ndarray:
        return np.sin(np.nextafter(np.float32(10.0) * inputs["x"], np.float32(np.inf)))

    (finding,) = findings(one_layer(Waves(name="y"), (12,)), compute)
    assert (finding.cause, finding.operation) == (Cause.OTHER_OPERATION, "ops.tanh(10.0 * x)")


class Ranks(L.Layer):
    """A function of the order of many numbers, some of which are almost equal in a large batch."""

    def call(self, x: Any) -> Any:
        order = ops.argsort(x, axis=-1)
        return ops.tanh(ops.cast(order, "float32") / 200.0)


def test_close_numbers_that_change_places_in_a_few_rows_refute_nothing() -> None:
    def compute(inputs: Any) -> np.ndarray:
        x = inputs["x"]
        rounding = 1 + 2.0**-23 * np.random.default_rng(0).uniform(-1, 1, x.shape)  # as one operation rounds
        return np.sin(np.argsort(x * rounding, axis=-1, kind="stable") / 200.0)

    (finding,) = findings(one_layer(Ranks(name="y"), (400,)), compute)
    assert (finding.cause, finding.operation) == (Cause.OTHER_OPERATION, 'ops.tanh(ops.cast(order, "float32") / 200.0)')


class Soft(L.Layer):
    """A smooth step."""

    def call(self, x: Any) -> Any:
        return ops.softplus(x) * 2


def test_function_that_leaves_a_part_of_the_difference_is_no_cause() -> None:
    model = one_layer(Soft(name="y"), (6,))
    (finding,) = findings(model, lambda inputs: 2 * np.maximum(inputs["x"], 0) + 0.01 * np.sin(3 * inputs["x"]))
    assert finding.cause is Cause.UNKNOWN
