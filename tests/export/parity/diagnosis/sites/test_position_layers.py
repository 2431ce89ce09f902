"""A position layer of this package that an artifact calls at other positions is named with the positions of both."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import keras_pe
from keras_pe.export.results import OtherValue
from tests.export.parity.diagnosis.planted import Compute, findings

Plant = Callable[[], tuple[keras.Model, Compute]]
Wrong = Callable[[np.ndarray], np.ndarray]

ROTARY = keras_pe.RotaryPositionEncoding
HEADS, SEQUENCE = (None, 2, 16), (None, 16)


def _count(kind: Any, shape: tuple[int | None, ...], wrong: Wrong, **config: Any) -> Plant:
    """Returns what makes a model whose positions are counted, and an artifact with others made of these."""

    def plant() -> tuple[keras.Model, Compute]:
        layer = kind(**config, name="y")
        x = keras.Input(shape, name="x")

        def compute(inputs: Any) -> np.ndarray:
            positions = wrong(np.arange(inputs["x"].shape[1]))
            return np.asarray(layer(inputs["x"], positions=positions.astype("int32")))

        return keras.Model(x, layer(x)), compute

    return plant


def _supply(kind: Any, shape: tuple[int | None, ...], wrong: Wrong, **config: Any) -> Plant:
    """Returns what makes a model that is given its positions, and an artifact with others made of these."""

    def plant() -> tuple[keras.Model, Compute]:
        layer = kind(**config, name="y")
        x, positions = keras.Input(shape, name="x"), keras.Input((None,), dtype="int32", name="positions")
        return keras.Model([x, positions], layer(x, positions=positions)), lambda inputs: np.asarray(
            layer(inputs["x"], positions=wrong(inputs["positions"]))
        )

    return plant


def _steps(wrong: Wrong, dtype: str = "int32") -> Plant:
    def plant() -> tuple[keras.Model, Compute]:
        layer, steps = keras_pe.TimestepEmbedding(16, name="y"), keras.Input((), dtype=dtype, name="steps")
        return keras.Model(steps, layer(steps)), lambda inputs: np.asarray(layer(wrong(inputs["steps"])))

    return plant


def _exchange() -> tuple[keras.Model, Compute]:
    layer, x = ROTARY(sequence_axis=(1, 2), name="y"), keras.Input((None, None, 2, 16), name="x")

    def compute(inputs: Any) -> np.ndarray:
        doubled = [(2 * np.arange(size)).astype("int32") for size in inputs["x"].shape[1:3]]
        return np.asarray(layer(inputs["x"], positions=doubled))

    return keras.Model(x, layer(x)), compute


def _first(positions: np.ndarray) -> np.ndarray:
    return np.broadcast_to(positions[:, :1], positions.shape)


QUICK: dict[str, tuple[Plant, str, tuple[Any, Any] | None]] = {
    "one position of a table": (
        _supply(keras_pe.LearnedPositionEmbedding, (None, 8), _first, max_length=64),
        "other positions",
        None,
    ),
    "a step cut": (_steps(lambda steps: np.minimum(steps, 20)), "clipped input", None),
    "doubled": (_count(ROTARY, HEADS, lambda p: 2 * p), "other positions", ((1, 2, 3, 4), (2, 4, 6, 8))),
}
SLOW: dict[str, tuple[Plant, str, tuple[Any, Any] | None]] = {
    "counted again": (_count(ROTARY, HEADS, lambda p: p % 8), "other positions", ((8, 9, 10, 11), (0, 1, 2, 3))),
    "reversed": (_count(ROTARY, HEADS, lambda p: p[::-1]), "other positions", ((0, 1, 2, 3), (12, 11, 10, 9))),
    "further": (_count(ROTARY, HEADS, lambda p: p + 700), "start index off", ((0, 1, 2, 3), (700, 701, 702, 703))),
    "one position": (_supply(ROTARY, HEADS, _first), "other positions", None),
    "those of the first example": (
        _supply(ROTARY, HEADS, lambda p: np.broadcast_to(p[:1], p.shape)), "repeated row", None
    ),
    "squares": (_count(ROTARY, HEADS, lambda p: p * p), "other positions", ((2, 3, 4, 5), (4, 9, 16, 25))),
    "a grid": (_exchange, "other positions", None),
    "sines doubled": (
        _count(keras_pe.SinusoidalPositionEncoding, SEQUENCE, lambda p: 2 * p),
        "other positions",
        ((1, 2, 3, 4), (2, 4, 6, 8)),
    ),
    "sines cut": (
        _count(keras_pe.SinusoidalPositionEncoding, SEQUENCE, lambda p: np.minimum(p, 5)),
        "clamped table",
        ((6, 7, 8, 9), (5, 5, 5, 5)),
    ),
    "distances of one position": (_supply(keras_pe.AlibiBias, (None, 8), _first, num_heads=4), "other positions", None),
    "buckets cut": (
        _count(keras_pe.RelativePositionBias, (None, 8), lambda p: np.minimum(p, 4), num_heads=4),
        "clamped table",
        ((5, 6, 7, 8), (4, 4, 4, 4)),
    ),
    "steps from one": (_steps(lambda steps: steps + 1), "shifted input", None),
    "steps without a fraction": (_steps(np.floor, "float32"), "other positions", None),
}  # fmt: skip


def _check(plant: Plant, cause: str, positions: tuple[Any, Any] | None) -> None:
    (finding,) = findings(*plant())
    assert (finding.cause, finding.layer) == (cause, "y"), finding
    if positions is not None:
        assert finding.parameters == (OtherValue("positions", *positions),)


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("name", QUICK)
def test_other_positions_are_named_with_those_of_the_model(name: str) -> None:
    _check(*QUICK[name])


@pytest.mark.slow_rows(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_any_other_positions_are_named_with_those_of_the_model(name: str) -> None:
    _check(*SLOW[name])
