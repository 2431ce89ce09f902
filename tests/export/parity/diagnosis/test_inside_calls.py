"""A call of a layer is made again with one of its operations changed, and the operation at fault is named."""

import inspect
from pathlib import Path

import keras
import numpy as np
import pytest
from fault_examples import seeded
from keras import ops

from tests.export.parity.diagnosis.planted import findings, one_layer


class Gate(keras.layers.Layer):
    """Gates one half of the channels by the other."""

    def call(self, x):
        value, gate = ops.split(x, 2, axis=-1)
        size = ops.sum(ops.square(value), axis=-1, keepdims=True)
        scaled = value / ops.sqrt(size + 0.1)
        return scaled * ops.sigmoid(gate) - 0.25 * value


def _gate(x, power=2.0, epsilon=0.1, inside=True, factor=0.25, turned=False, logistic=True):
    value, gate = np.split(x, 2, axis=-1)[:: -1 if turned else 1]
    size = np.sum(np.abs(value) ** power, axis=-1, keepdims=True)
    root = np.sqrt(size + epsilon) if inside else np.sqrt(size) + epsilon
    return value / root * ((1 + np.tanh(gate / 2)) / 2 if logistic else np.tanh(gate)) - factor * value


_FAULTS = {
    "a function": (3, {"logistic": False}, "ops.sigmoid(gate)"),
    "a constant": (3, {"factor": 0.5}, "0.25 * value"),
    "the place of a constant": (2, {"inside": False}, "size + 0.1"),
    "a function of an operand": (1, {"power": 1.0}, "ops.square(value)"),
    "halves": (0, {"turned": True}, "ops.split(x, 2, axis=-1)"),
}


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("what", _FAULTS)
def test_operation_of_a_layer_is_named_where_the_artifact_shows_the_outputs_of_layers_alone(what):
    offset, change, operation = _FAULTS[what]
    model = seeded(one_layer(Gate(name="y"), (6,)))
    (finding,) = findings(model, lambda inputs: _gate(inputs["x"], **change))
    source, first = inspect.getsourcelines(Gate.call)
    assert Path(finding.file).name == "test_inside_calls.py"
    assert finding.line == first + 1 + offset, source
    assert finding.layer == "y"
    assert finding.operation == operation
