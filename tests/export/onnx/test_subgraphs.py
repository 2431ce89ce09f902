"""Branches and loops see the tensors around them as the model does, whatever the optimizer does to these."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
from keras import ops

from keras_pe.export import export_onnx

# A convolution sums 24 products below 0.3, and what follows at most doubles the sum; both sides round.
TOLERANCE = 24 * 8 * float(np.finfo("float32").eps)


def branches(one: Callable[[Any], Any], other: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ops.cond(ops.mean(x) > 1, lambda: one(x), lambda: other(x))


@pytest.mark.parametrize(
    "function",
    [
        branches(lambda x: x, lambda x: -x),
        branches(lambda x: ops.relu(x) + ops.tanh(x), lambda x: ops.roll(x, 1, 1)),
        branches(branches(lambda x: 2 * x, lambda x: x), lambda x: ops.log1p(ops.abs(x))),
        lambda x: ops.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, ops.tanh(y) + ops.relu(x)), (0, x))[1],
    ],
    ids=["of one node", "of several", "nested", "loop"],
)
@pytest.mark.parametrize("is_read_outside", [False, True])
def test_what_a_branch_reads_of_a_convolution_is_not_transposed(
    function: Callable[[Any], Any], is_read_outside: bool, tmp_path: Path
) -> None:
    x = keras.Input((None, 8), name="x")
    convolved = keras.layers.Conv1D(8, 3, padding="same", bias_initializer="ones")(x)
    y = keras.layers.Lambda(function, output_shape=(None, 8))(convolved)
    model = keras.Model(x, y + ops.relu(convolved) if is_read_outside else y)
    model.layers[1].kernel.assign(np.random.default_rng(0).uniform(0, 0.1, (3, 8, 8)))
    session = ort.InferenceSession(export_onnx(model, tmp_path / "model.onnx").path, providers=["CPUExecutionProvider"])
    for sign in (-1, 1):  # one for each branch: around a bias of 1
        for shape in ((2, 9, 8), (3, 8, 8)):  # a square hides a transposition in its shape, not in its numbers
            values = sign * np.random.default_rng(1).uniform(1, 3, size=shape).astype("float32")
            (actual,) = session.run(None, {"x": values})
            np.testing.assert_allclose(actual, model.predict(values, verbose=0), rtol=TOLERANCE, atol=TOLERANCE)
