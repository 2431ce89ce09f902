"""Wrong indices are named as the fault of the layer that computes them, not of the embedding that looks them up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812

from keras_pe.export import check_parity, export_litert
from keras_pe.export.results import OtherValue
from tests.export.parity.diagnosis.planted import Closed, Compute, findings

WORDS = [3, 5, 7, 9, 11, 20]


def _looked_up(right: L.Layer, wrong: L.Layer, dtype: str = "int32") -> tuple[keras.Model, Compute]:
    """Returns a model that embeds the indices of a layer, and an artifact that has another such layer."""
    x, embed = keras.Input((3,), dtype=dtype, name="x"), L.Embedding(20, 4, name="embed")
    model = seeded(keras.Model(x, {"y": embed(right(x))}))
    return model, lambda inputs: np.asarray(embed(wrong(inputs["x"])))


def _lookup(words: list[int], **named: int) -> L.Layer:
    return L.IntegerLookup(vocabulary=words, name="lookup", **named)


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
        pytest.param(lambda: _lookup(WORDS), lambda: _lookup(WORDS, mask_token=0), "int32", "mask_token", id="mask"),
        pytest.param(
            lambda: _lookup(WORDS, mask_token=1),
            lambda: _lookup(WORDS),
            "int32",
            "mask_token",
            id="no mask",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            lambda: _lookup(WORDS),
            lambda: _lookup(WORDS, num_oov_indices=2),
            "int32",
            "num_oov_indices",
            id="unknown words",
            marks=pytest.mark.exhaustive,
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


@pytest.mark.parametrize(
    ("wrong", "value"),
    [
        ({"salt": 7}, OtherValue("salt", (3, 3), 7)),
        pytest.param({"salt": 3, "num_bins": 13}, OtherValue("num_bins", 20, 13), marks=pytest.mark.slow),
    ],
    ids=["salt", "bins"],
)
def test_the_argument_of_a_hash_is_named_with_both_values(wrong: dict[str, int], value: OtherValue) -> None:
    layers = L.Hashing(20, salt=3, name="lookup"), L.Hashing(**{"num_bins": 20, **wrong})
    (finding,) = findings(*_looked_up(*layers))
    assert (finding.layer, finding.parameters) == ("lookup", (value,))


@pytest.mark.parametrize(
    ("words", "at"),
    [
        ([*WORDS[:2], *WORDS[3:]], 7),
        pytest.param([*WORDS[:-1], 50], 20, marks=pytest.mark.slow),
        pytest.param(WORDS[::-1], 3, marks=pytest.mark.slow),
    ],
    ids=["lost", "replaced", "reversed"],
)
def test_a_wrong_vocabulary_is_named_by_the_outputs_alone(words: list[int], at: int) -> None:
    (finding,) = findings(*_looked_up(_lookup(WORDS), _lookup(words)), Closed)
    assert (finding.cause, finding.layer) == ("other vocabulary", "lookup"), finding
    assert finding.parameters[0].name == f"index of {at}"


def _bin_model(borders: list[float], mode: str) -> keras.Model:
    x = keras.Input((1 if mode == "one_hot" else 3,), name="x")
    bins = L.Discretization(borders, output_mode=mode, name="bins")(x)
    inner = bins if mode == "one_hot" else L.Flatten()(L.Embedding(5, 4, name="embed")(bins))
    return seeded(keras.Model(x, L.Dense(2, name="head")(inner)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["int", "one_hot"])
@pytest.mark.parametrize("borders", [[-1.0, 0.05, 1.0], [-1.3, 0.0, 1.2], [-1.0, 1.0]], ids=["one", "two", "lost"])
def test_the_borders_of_bins_are_named_in_a_file_of_which_the_outputs_alone_tell(
    borders: list[float], mode: str, tmp_path: Path
) -> None:
    if mode == "one_hot" and len(borders) == 2:
        borders = [-1.0, 0.0, 3.0]  # the number of bins is the width of the output
    export_litert(_bin_model(borders, mode), tmp_path / "bins.tflite")
    report = check_parity(_bin_model([-1.0, 0.0, 1.0], mode), tmp_path / "bins.tflite")
    (finding,) = report.findings
    assert (finding.cause, finding.layer) == ("other bin_boundaries", "bins"), str(report)
    assert finding.parameters == (OtherValue("bin_boundaries", (-1.0, 0.0, 1.0), tuple(borders)),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "cause"),
    [
        (
            lambda **mode: L.IntegerLookup(vocabulary=WORDS, **mode),
            lambda **mode: L.IntegerLookup(vocabulary=[*WORDS[1:], 50], **mode),
            "other vocabulary",
        ),
        (
            lambda **mode: L.Discretization([2.0, 4.0], **mode),
            lambda **mode: L.Discretization([2.0, 6.0], **mode),
            "other bin_boundaries",
        ),
        (lambda **mode: L.Hashing(7, salt=3, **mode), lambda **mode: L.Hashing(7, salt=5, **mode), "other salt"),
    ],
    ids=["lookup", "bins", "hash"],
)
@pytest.mark.parametrize("mode", ["multi_hot", "one_hot"])
def test_counts_of_wrong_indices_are_the_fault_of_the_layer_that_counts(
    right: Callable[..., Any], wrong: Callable[..., Any], cause: str, mode: str
) -> None:
    x, mix = keras.Input((1 if mode == "one_hot" else 3,), dtype="int32", name="x"), L.Dense(4, name="mix")
    lookups = [each(output_mode=mode, name="lookup") for each in (right, wrong)]
    counts = lookups[0](x)
    model = seeded(keras.Model(x, {"counts": counts, "y": mix(counts)}))

    def compute(inputs: Any) -> dict[str, np.ndarray]:
        counts = np.asarray(lookups[1](inputs["x"]))
        return {"counts": counts, "y": np.asarray(mix(counts))}

    (finding,) = (each for each in findings(model, compute) if each.layer is not None)
    assert (finding.cause, finding.layer) == (cause, "lookup"), finding
