"""Branches and loops see the tensors around them as the model does, whatever the optimizer does to these."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import export_and_compare

# A convolution sums 24 products below 0.3, and what follows at most doubles the sum; both sides round.
TOLERANCE = 24 * 8 * float(np.finfo("float32").eps)


def branches(one: Callable[[Any], Any], other: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ops.cond(ops.mean(x) > 1, lambda: one(x), lambda: other(x))


FUNCTIONS = {
    "of one node": branches(lambda x: x, lambda x: -x),
    "of several": branches(lambda x: ops.relu(x) + ops.tanh(x), lambda x: ops.roll(x, 1, 1)),
    "nested": branches(branches(lambda x: 2 * x, lambda x: x), lambda x: ops.log1p(ops.abs(x))),
    "loop": lambda x: ops.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, ops.tanh(y) + ops.relu(x)), (0, x))[1],
}


@pytest.mark.slow
def test_the_output_of_a_convolution_that_a_branch_reads_is_not_transposed(tmp_path: Path) -> None:
    """Each of them has a convolution of its own, and one more that something outside reads as well."""
    x = keras.Input((None, 8), name="x")
    outputs, rng = {}, np.random.default_rng(0)
    for name, function in FUNCTIONS.items():
        for is_read_outside in (False, True):
            convolution = keras.layers.Conv1D(8, 3, padding="same", bias_initializer="ones")
            convolved = convolution(x)
            convolution.kernel.assign(rng.uniform(0, 0.1, (3, 8, 8)))
            y = keras.layers.Lambda(function, output_shape=(None, 8))(convolved)
            key = f"{name}, read outside" if is_read_outside else name
            outputs[key] = y + ops.relu(convolved) if is_read_outside else y
    shapes = (2, 9, 8), (3, 8, 8)  # a square hides a transposition in its shape, not in its numbers
    # One for each branch: around a bias of 1.
    cases = [sign * rng.uniform(1, 3, size=shape).astype("float32") for sign in (-1, 1) for shape in shapes]
    model = keras.Model(x, list(outputs.values()))
    export_and_compare(model, tmp_path / "model.onnx", *cases, rtol=TOLERANCE, atol=TOLERANCE)
