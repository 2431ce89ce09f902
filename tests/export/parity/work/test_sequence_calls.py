"""A row of a data set is cut into calls of sizes that the model takes."""

from typing import Any

import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.state import State
from keras_pe.export.model.sizes.dimensions import SizeRange
from keras_pe.export.parity.work.sequence_calls import SequenceCalls

STATES = (State("s", "s_out", ("batch", 2), "float32", 0), State("n", "n_out", (), "int32", 5))


def add_up(inputs: Any) -> Any:
    """Adds each step of two values to the state, and returns the sums."""
    x = inputs["x"] if inputs["x"].ndim == 3 else inputs["x"][:, None]
    sums = inputs["s"][:, None] + np.cumsum(x, axis=1)
    y = sums if inputs["x"].ndim == 3 else sums[:, 0]
    return {"y": y, "s_out": sums[:, -1], "n_out": inputs["n"] + x.shape[1]}


@pytest.mark.parametrize("lengths", [SizeRange(), SizeRange(2, 2), None])
def test_calls_of_a_row_give_the_whole_sequence_and_begin_anew_in_the_next_row(lengths: SizeRange | None) -> None:
    dim = "steps" if lengths is None else "length"
    calls = SequenceCalls((TensorInfo("x", ("batch", dim, 2), "float32"),), {"x": 1}, STATES, lengths)
    for length in (2, 4, 28, 100):
        x = np.random.default_rng(length).normal(size=(3, length, 2)).astype("float32")
        made = list[int]()

        def run(inputs: Any, made: list[int] = made) -> Any:
            made.append(inputs["x"].shape[1] if inputs["x"].ndim == 3 else 1)
            return add_up(inputs)

        for _ in range(2):
            made.clear()
            found = calls.split_into_calls(run)({"x": x})
            np.testing.assert_allclose(found["y"], np.cumsum(x, axis=1), rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(found["s_out"], x.sum(axis=1), rtol=1e-4, atol=1e-5)
            assert found.keys() == {"y", "s_out"}  # a state without rows has no value for each row
        assert sum(made) == length
        assert all(size in (lengths or SizeRange()) for size in made)
        assert len(made) == (length if lengths is None else 4 if length > 14 else len(made))
