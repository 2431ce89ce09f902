"""Named arrays that are read on access."""

import numpy as np
import pytest

from keras_pe.export.runtimes.runner import InProcessRunner
from keras_pe.export.runtimes.runtime import LazyArrays, RuntimeSpec


def test_nothing_is_read_before_it_is_asked_for_and_nothing_is_kept():
    read = []
    arrays = LazyArrays(["a", "b", "a"], lambda name: read.append(name) or np.full(2, len(name)))
    assert list(arrays) == ["a", "b"]
    assert len(arrays) == 2
    assert "b" in arrays
    assert "c" not in arrays
    assert read == []
    np.testing.assert_array_equal(arrays["b"], [1, 1])
    assert arrays["b"] is not arrays["b"]
    assert read == ["b", "b", "b"]
    with pytest.raises(KeyError):
        arrays["c"]


class Holding:
    """A runtime that holds a table, a vector and a number, and runs nothing."""

    inputs, version = (), "1"

    def __init__(self, model, signature):
        pass

    def weights(self):
        return {"table": np.arange(60.0).reshape(12, 5), "vector": np.arange(3.0), "number": np.float64(7)}


def test_a_large_weight_of_a_runtime_comes_a_few_rows_at_a_time_and_whole_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(
        "keras_pe.export.runtimes.runtime_session._MOST_AT_ONCE", 200
    )  # bytes: five of the table's rows of 40
    spec = RuntimeSpec("holding", "keras", f"{__name__}:Holding", package="numpy", install="pip install numpy")
    runner = InProcessRunner(spec, None, None)
    runner.load()
    weights = runner.weights()
    assert [len(rows) for rows in weights.pieces("table")] == [5, 5, 2]
    for together in zip(weights.pieces("table"), weights.only(["table"]).pieces("table"), strict=True):
        np.testing.assert_array_equal(*together)
    np.testing.assert_array_equal(weights["table"], np.arange(60.0).reshape(12, 5))
    assert [rows.shape for name in ("vector", "number") for rows in weights.pieces(name)] == [(3,), ()]
    assert weights["number"] == 7
