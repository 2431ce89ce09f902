"""A fault of a loop in a user's layer is named at its line: the number of iterations, or an index of each of them."""

import inspect
from pathlib import Path

import keras
import numpy as np
import pytest
from fault_examples import seeded
from keras import ops

from keras_pe.export.results import Cause
from tests.export.parity.diagnosis.planted import findings, one_layer


class Settle(keras.layers.Layer):
    """Repeats a step."""

    def call(self, x):
        state = x
        for _ in range(3):
            state = ops.tanh(state) + 0.5 * x
        return 2.0 * state


def _settle(x, rounds=3):
    state = x
    for _ in range(rounds):
        state = np.tanh(state) + 0.5 * x
    return 2.0 * state


class Scan(keras.layers.Layer):
    """Takes a step for each row."""

    def call(self, x):
        state = x[:, 0]
        for row in range(1, 5):
            state = 0.5 * ops.tanh(state)
            state = state + x[:, row]
        return state


def _scan(x, rows=range(1, 5), offset=0, step=1):
    state = x[:, 0]
    for row in rows:
        state = 0.5 * np.tanh(state) + x[:, step * row + offset]
    return state


class Sum(keras.layers.Layer):
    """Adds functions of rows, and returns the sum beside another function."""

    def call(self, x):
        total = 0.0
        for row in range(4):
            total = total + ops.tanh(x[:, row])
        return ops.concatenate([total, ops.sin(x[:, 0])], axis=-1)


def _last_of_sum(x):
    return np.concatenate([np.tanh(x[:, 3]), np.sin(x[:, 0])], -1)


_FAULTS = {
    "the last term": (Sum, _last_of_sum, 2, Cause.OPERATION_LEFT_OUT, "total + ops.tanh(x[:, row])"),
    "one iteration fewer": (Settle, lambda x: _settle(x, 2), 1, Cause.attribute("iterations"), "for _ in range(3)"),
    "two iterations fewer": (Settle, lambda x: _settle(x, 1), 1, Cause.attribute("iterations"), "for _ in range(3)"),
    "one iteration more": (Settle, lambda x: _settle(x, 4), 1, Cause.attribute("iterations"), "for _ in range(3)"),
    "the last row": (Scan, lambda x: _scan(x, range(1, 4)), 1, Cause.attribute("iterations"), "for row in range(1, 5)"),
    "the first row": (
        Scan,
        lambda x: _scan(x, range(2, 5)),
        1,
        Cause.attribute("iterations"),
        "for row in range(1, 5)",
    ),
    "one row each time": (Scan, lambda x: _scan(x, offset=1, step=0), 3, Cause.SHIFTED_ROWS, "x[:, row]"),
    "the row before": (Scan, lambda x: _scan(x, offset=-1), 3, Cause.SHIFTED_ROWS, "x[:, row]"),
}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("what", _FAULTS)
def test_line_of_a_loop_is_named(what: str) -> None:
    kind, compute, offset, cause, operation = _FAULTS[what]
    model = seeded(one_layer(kind(name="y"), (6, 3)))
    (finding,) = findings(model, lambda inputs: compute(inputs["x"]))
    _, first = inspect.getsourcelines(kind.call)
    assert Path(finding.file).name == Path(__file__).name
    assert (finding.line, finding.cause, finding.operation) == (first + 1 + offset, cause, operation)
