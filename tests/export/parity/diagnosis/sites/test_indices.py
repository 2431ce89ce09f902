"""Wrong indices are named as the fault of the layer that computes them, not of the embedding that looks them up."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812

from tests.export.parity.diagnosis.planted import Compute, findings

WORDS = [3, 5, 7, 9, 11, 20]


def _looked_up(right: L.Layer, wrong: L.Layer, dtype: str = "int32") -> tuple[keras.Model, Compute]:
    """Returns a model that embeds the indices of a layer, and an artifact that has another such layer."""
    x, embed = keras.Input((3,), dtype=dtype, name="x"), L.Embedding(20, 4, name="embed")
    model = seeded(keras.Model(x, {"y": embed(right(x))}))
    return model, lambda inputs: np.asarray(embed(wrong(inputs["x"])))


def _lookup(words: list[int]) -> L.Layer:
    return L.IntegerLookup(vocabulary=words, name="lookup")


@pytest.mark.parametrize(
    ("right", "wrong", "dtype", "cause"),
    [
        pytest.param(
            lambda: _lookup(WORDS), lambda: _lookup([*WORDS[:2], *WORDS[3:]]), "int32", "vocabulary", id="lost"
        ),
        pytest.param(
            lambda: _lookup(WORDS),
            lambda: _lookup(WORDS[::-1]),
            "int32",
            "vocabulary",
            id="order",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: L.Hashing(20, salt=3, name="lookup"), lambda: L.Hashing(20, salt=7), "int32", "salt", id="salt"
        ),
        pytest.param(
            lambda: L.Discretization([-1.0, 0.0, 1.0], name="lookup"),
            lambda: L.Discretization([-1.0, 0.5, 1.0]),
            "float32",
            "bin_boundaries",
            id="border",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_wrong_index_is_the_fault_of_the_layer_that_computes_it(
    right: Callable[[], Any], wrong: Callable[[], Any], dtype: str, cause: str
) -> None:
    (finding,) = findings(*_looked_up(right(), wrong(), dtype))
    assert (finding.cause, finding.layer) == (f"other {cause}", "lookup"), finding
    assert finding.parameters
    assert all(each.model != each.artifact for each in finding.parameters)
