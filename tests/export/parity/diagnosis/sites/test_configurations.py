"""A position layer of this package that an artifact has with other arguments is named with both values."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe import AlibiBias, RotaryPositionEncoding, SinusoidalPositionEncoding, TimestepEmbedding
from keras_pe.export.results import OtherValue
from keras_pe.signal.rope_scalings import rope_timescales
from tests.export.parity.diagnosis.planted import Compute, findings, one_layer

Plant = Callable[[], tuple[keras.Model, Compute]]
Config = dict[str, Any]

HEADS, GRID, SEQUENCE = (None, 2, 16), (None, None, 2, 16), (None, 16)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
LLAMA = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
LONG = {"rope_type": "longrope", "original_max_position_embeddings": 64, "factor": 4.0}
OWN = {**LONG, "attention_factor": 1.0, "length": 1, "long_factor": [1.0] * 8}
OWN["short_factor"] = [1, 1, 1.3, 1, 1, 1, 2.2, 1]
QUERIES = {"scale": 0.1, "length": 4}
LISTS = {"short_factor": [1 + i / 10 for i in range(8)], "long_factor": [1.0 + i for i in range(8)]}


def _scaling(base: Config, **changed: Any) -> Config:
    return {"scaling": {**base, **changed}}


def _rotary(right: Config, wrong: Config, shape: tuple[int | None, ...] = HEADS, **both: Any) -> Plant:
    return _other(RotaryPositionEncoding, shape, right, wrong, **both)


def _other(kind: Any, shape: tuple[int | None, ...], right: Config, wrong: Config, **both: Any) -> Plant:
    """Returns what makes a model of a layer, and an artifact with a layer of other arguments."""

    def plant() -> tuple[keras.Model, Compute]:
        layer, other = kind(**right, **both, name="y"), kind(**wrong, **both)
        return one_layer(layer, shape), lambda inputs: np.asarray(other(inputs["x"]))

    return plant


def _section_plant(right: Config, wrong: Config) -> Plant:
    def plant() -> tuple[keras.Model, Compute]:
        layer, other = (RotaryPositionEncoding(shared_rates=True, **each, name="y") for each in (right, wrong))
        x = keras.Input((None, 2, 24), name="x")
        positions = [keras.Input((None,), dtype="int32", name=name) for name in "pqr"]
        model = keras.Model([x, *positions], layer(x, positions=positions))
        return model, lambda inputs: np.asarray(other(inputs["x"], positions=[inputs[name] for name in "pqr"]))

    return plant


def _step_plant(**wrong: Any) -> Plant:
    def plant() -> tuple[keras.Model, Compute]:
        layer, other = TimestepEmbedding(16, name="y"), TimestepEmbedding(16, **wrong)
        steps = keras.Input((), dtype="int32", name="steps")
        return keras.Model(steps, layer(steps)), lambda inputs: np.asarray(other(inputs["steps"]))

    return plant


def _slope_plant(**wrong: Any) -> Plant:
    return _other(AlibiBias, (None, 8), {}, wrong, num_heads=6)


QUICK: dict[str, tuple[Plant, str, str, Any, Any]] = {
    "slopes": (_slope_plant(rule="paper"), "other rule", "rule", "press", "paper"),
    "times": (_step_plant(scale=1000.0), "other scale", "scale", 1.0, 1000.0),
    "width of rotation": (_rotary({"rotary_dim": 8}, {"rotary_dim": 12}), "other rotary_dim", "rotary_dim", 8, 12),
    "factor": (_rotary(_scaling(YARN), _scaling(YARN, factor=8.0)), "other factor", "scaling.factor", 4.0, 8.0),
    "llama3": (_rotary(_scaling(LLAMA), _scaling(LLAMA, factor=32.0)), "other factor", "scaling.factor", 8.0, 32.0),
    "grid": (
        _rotary({"sequence_axis": (1, 2)}, {"sequence_axis": (2, 1)}, GRID),
        "other sequence_axis",
        "sequence_axis",
        (1, 2),
        (2, 1),
    ),
    "sections": (
        _section_plant({"sections": (6, 3, 3)}, {"sections": (2, 5, 5)}),
        "other sections",
        "sections",
        (6, 3, 3),
        (2, 5, 5),
    ),
}
SLOW: dict[str, tuple[Plant, str, str, Any, Any]] = {
    "direction": (_rotary({}, {"direction": -1}), "other direction", "direction", 1, -1),
    "base": (_rotary({}, {"base": 12345.0}), "other base", "base", 1e4, 12345.0),
    "all channels": (_rotary({"rotary_dim": 4}, {}), "other rotary_dim", "rotary_dim", 4, 16),
    "layout": (
        _rotary({}, {"layout": "interleaved_to_halves"}), "wrong layout", "layout", "halves", "interleaved_to_halves"
    ),
    "factor of no power": (
        _rotary(_scaling(YARN), _scaling(YARN, factor=3.7)), "other factor", "scaling.factor", 4.0, 3.7
    ),
    "beta_fast": (
        _rotary(_scaling(YARN), _scaling(YARN, beta_fast=16.0), (None, 2, 32)),
        "other beta_fast",
        "scaling.beta_fast",
        32.0,
        16.0,
    ),
    "beta_slow": (
        _rotary(_scaling(YARN, truncate=False), _scaling(YARN, truncate=False, beta_slow=3.0), (None, 2, 32)),
        "other beta_slow",
        "scaling.beta_slow",
        1.0,
        3.0,
    ),
    "truncation": (
        _rotary(_scaling(YARN), _scaling(YARN, truncate=False)), "other truncate", "scaling.truncate", True, False
    ),
    "original length": (
        _rotary(_scaling(YARN), _scaling(YARN, original_max_position_embeddings=32768), (None, 2, 32)),
        "other original_max_position_embeddings",
        "scaling.original_max_position_embeddings",
        4096,
        32768.0,
    ),
    "temperature": (
        _rotary(_scaling(YARN), _scaling(YARN, attention_factor=1.0)),
        "missing scaling",
        "scaling.attention_factor",
        pytest.approx(1.1386294361),
        1.0,
    ),
    "low_freq_factor": (
        _rotary(_scaling(LLAMA), _scaling(LLAMA, low_freq_factor=2.0)),
        "other low_freq_factor",
        "scaling.low_freq_factor",
        1.0,
        2.0,
    ),
    "high_freq_factor": (
        _rotary(_scaling(LLAMA), _scaling(LLAMA, high_freq_factor=8.0)),
        "other high_freq_factor",
        "scaling.high_freq_factor",
        4.0,
        8.0,
    ),
    "without": (
        _rotary(_scaling(LLAMA), {}), "missing scaling", "scaling.rope_type", "llama3", None
    ),
    "another rule": (
        _rotary(_scaling(YARN), _scaling({"rope_type": "linear", "factor": 4.0})),
        "other rope_type",
        "scaling.rope_type",
        "yarn",
        "linear",
    ),
    "a rule and a base": (
        _rotary({}, {"base": 5e5, **_scaling(LLAMA, original_max_position_embeddings=8192)}),
        "other rope_type",
        "scaling.low_freq_factor",
        None,
        1.0,
    ),
    "part": (
        _rotary(
            _scaling({"rope_type": "proportional", "partial_rotary_factor": 0.5}),
            _scaling({"rope_type": "proportional", "partial_rotary_factor": 0.25}),
        ),
        "other partial_rotary_factor",
        "scaling.partial_rotary_factor",
        0.5,
        0.25,
    ),
    "lists": (
        _rotary(
            _scaling(LONG, **LISTS),
            _scaling(LONG, short_factor=LISTS["long_factor"], long_factor=LISTS["short_factor"]),
        ),
        "other short_factor",
        "scaling.short_factor",
        tuple(LISTS["short_factor"]),
        tuple(LISTS["long_factor"]),
    ),
    "rates of nobody": (
        _rotary({}, _scaling(OWN)),
        "other rates",
        "rates",
        (0.1, 0.001),
        (0.076923, pytest.approx(0.00045454, rel=1e-3)),
    ),
    "interleaved sections": (
        _section_plant({"sections": (6, 3, 3)}, {"sections": (6, 3, 3), "interleave_sections": True}),
        "other interleave_sections",
        "interleave_sections",
        False,
        True,
    ),
    "shared rates": (
        _rotary({}, {"shared_rates": True}, GRID, sequence_axis=(1, 2)),
        "other shared_rates",
        "shared_rates",
        False,
        True,
    ),
    "split sections": (
        _rotary({}, {"split_sections": True}, GRID, sequence_axis=(1, 2), sections=(5, 3)),
        "other split_sections",
        "split_sections",
        False,
        True,
    ),
    "axes of pairs": (
        _rotary({"axis_of_pair": (0, 1, 1, 0, 0, 1, 0, 1)}, {"axis_of_pair": (0, 0, 0, 0, 1, 1, 1, 1)}, GRID,
                sequence_axis=(1, 2)),
        "other axis_of_pair",
        "axis_of_pair",
        (0, 1, 1, 0, 0, 1, 0, 1),
        (0, 0, 0, 0, 1, 1, 1, 1),
    ),
    "queries scaled": (
        _rotary({}, {"query_scaling": QUERIES}),
        "other query_scaling",
        "query_scaling",
        None,
        (("scale", 0.1), ("length", 4), ("first_position", 0), ("stepwise", True)),
    ),
    "queries not scaled": (_rotary({"query_scaling": QUERIES}, {}), "missing scaling", "query_scaling",
                           (("scale", 0.1), ("length", 4), ("first_position", 0), ("stepwise", True)), None),
    "scale of queries": (
        _rotary({"query_scaling": QUERIES}, {"query_scaling": {**QUERIES, "scale": 0.37}}),
        "other scale", "query_scaling.scale", 0.1, 0.37
    ),
    "length of queries": (
        _rotary({"query_scaling": QUERIES}, {"query_scaling": {**QUERIES, "length": 16}}),
        "other length", "query_scaling.length", 4, 16
    ),
    "queries from one": (
        _rotary({"query_scaling": QUERIES}, {"query_scaling": {**QUERIES, "first_position": 1}}),
        "other first_position", "query_scaling.first_position", 0, 1
    ),
    "queries without steps": (
        _rotary({"query_scaling": QUERIES}, {"query_scaling": {**QUERIES, "stepwise": False}}),
        "other stepwise", "query_scaling.stepwise", True, False
    ),
    "order of axes": (
        _other(SinusoidalPositionEncoding, (None, None, 16), {}, {"reverse_axes": True}),
        "other reverse_axes",
        "reverse_axes",
        False,
        True,
    ),
    "largest exponent": (_slope_plant(bias_max=4.0), "other bias_max", "bias_max", 8.0, 4.0),
    "shift": (_step_plant(downscale_freq_shift=0.0), "other downscale_freq_shift", "downscale_freq_shift", 1.0, 0.0),
    "period": (_step_plant(max_period=100.0), "other max_period", "max_period", 1e4, 100.0),
    "sines of a grid": (
        _other(SinusoidalPositionEncoding, (None, None, 16), {}, {"max_timescale": 100.0}),
        "other convention",
        "max_timescale",
        1e4,
        100.0,
    ),
    "blocks": (
        _other(SinusoidalPositionEncoding, (None, None, 16), {}, {"blocks": "phase"}),
        "other blocks",
        "blocks",
        "axis",
        "phase",
    ),
}  # fmt: skip


def _check(plant: Plant, cause: str, *values: Any) -> None:
    (finding,) = findings(*plant())
    assert (finding.cause, finding.layer) == (cause, "y"), finding
    assert OtherValue(*values) in finding.parameters, finding.parameters


@pytest.mark.slow_rows(3)
@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("name", QUICK)
def test_another_argument_of_a_position_layer_is_named_with_both_values(name: str) -> None:
    _check(*QUICK[name])


@pytest.mark.slow_rows(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_any_argument_of_a_position_layer_is_named_with_both_values(name: str) -> None:
    _check(*SLOW[name])


@pytest.mark.slow
@pytest.mark.parametrize("beta_fast", [8.0, 16.0, 24.0, 28.0, 33.0, 36.0, 48.0, 64.0])
def test_a_beta_fast_passes_only_if_it_changes_no_rate(beta_fast: float) -> None:
    plant = _rotary(_scaling(YARN), _scaling(YARN, beta_fast=beta_fast), (None, 2, 32))
    rates = [rope_timescales(channels=32, **{**YARN, **each}).timescales for each in ({}, {"beta_fast": beta_fast})]
    if np.array_equal(*rates):
        with pytest.raises(AssertionError):  # the runtime passes
            findings(*plant())
    else:
        (finding,) = findings(*plant())
        assert (finding.cause, finding.layer) == ("other beta_fast", "y")
