"""Properties of every configuration that Hypothesis generates, and refusals of every invalid one."""

import math
from typing import Any, get_args

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_pe import SinusoidalPositionEncoding, timing_signal
from keras_pe.rotations.composed import LIMIT
from keras_pe.signal.layouts import Layout

IS_JAX = keras.config.backend() == "jax"
on_tensorflow = pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="no backend computes anything")
EXAMPLES = 10 if IS_JAX else 40
EXACT = 2.5e-7  # see test_sinusoidal_position_encoding.py

scales = st.floats(0.05, 1e6, allow_subnormal=False)
starts = st.integers(-LIMIT, LIMIT - 2000)
# JAX compiles every operation for every shape: there a few stand for all.
lengths = st.sampled_from([1, 7, 512, 1025]) if IS_JAX else st.integers(1, 1200)
widths = st.sampled_from([1, 2, 7]) if IS_JAX else st.integers(1, 40)
skips = st.sampled_from([0, 1, 512]) if IS_JAX else st.integers(0, 600)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted([draw(scales), draw(scales)])
    return {
        "min_timescale": low,
        "max_timescale": high,
        "start_index": draw(starts),
        "layout": draw(st.sampled_from(["concatenated", "interleaved"])),
        "endpoint": draw(st.booleans()),
        "max_length": draw(st.none() | st.just(1200)),
    }


def signal_of(config: dict[str, Any], length: int, channels: int) -> np.ndarray:
    layer = SinusoidalPositionEncoding(**config, combine="replace")
    return ops.convert_to_numpy(layer(np.zeros((1, length, channels), "float32")))[0]


@settings(deadline=None, derandomize=True, max_examples=EXAMPLES)
@given(configurations(), lengths, widths)
def test_the_signal_has_the_inputs_shape_lies_within_one_and_is_exact(config: dict, length: int, channels: int) -> None:
    signal = signal_of(config, length, channels)
    assert signal.shape == (length, channels)
    assert np.abs(signal).max() <= 1 + EXACT
    arguments = {key: config[key] for key in ("min_timescale", "max_timescale", "layout", "endpoint")}
    exact = timing_signal(config["start_index"] + np.arange(length), channels, **arguments)
    assert np.abs(signal - exact).max() <= EXACT


@settings(deadline=None, derandomize=True, max_examples=EXAMPLES)
@given(lengths, widths, starts)
def test_rows_are_unique(length: int, pairs: int, start: int) -> None:
    signal = signal_of({"start_index": start}, length, 2 * pairs)
    # The wavelength of the fastest pair, 2 pi, is irrational. Two of 1,200 rows are at least 6e-5 apart there (710 =
    # 113 * 2 pi + 6.0e-5), many times the error of 2.5e-7.
    assert len(np.unique(signal, axis=0)) == length


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=EXAMPLES)
@given(st.integers(-2000, 2000), lengths, skips, widths)
def test_a_start_gives_a_slice_of_a_longer_signal(start: int, length: int, skip: int, channels: int) -> None:
    longer = signal_of({"start_index": start}, skip + length, channels)
    shifted = signal_of({"start_index": start + skip}, length, channels)
    assert np.abs(longer[skip:] - shifted).max() <= 2 * EXACT


@on_tensorflow
@pytest.mark.slow
@settings(deadline=None, derandomize=True)
@given(configurations())
def test_a_configuration_survives_its_round_trip(config: dict) -> None:
    layer = SinusoidalPositionEncoding(**config)
    assert SinusoidalPositionEncoding.from_config(layer.get_config()).get_config() == layer.get_config()
    assert {key: layer.get_config()[key] for key in config} == config


junk = st.none() | st.text() | st.binary() | st.lists(st.text(), min_size=1) | st.dictionaries(st.text(), st.integers())
not_a_scale = junk | st.booleans() | st.floats(max_value=0.0) | st.sampled_from([math.nan, math.inf, -math.inf])
invalid = {
    "min_timescale": not_a_scale,
    "max_timescale": not_a_scale,
    "start_index": junk | st.booleans() | st.floats() | st.integers(LIMIT) | st.integers(max_value=-LIMIT - 1),
    "layout": junk | st.integers(),
    "endpoint": junk | st.integers() | st.floats(),
    "timescales": st.text() | st.floats() | st.lists(st.floats(max_value=0.0), min_size=1) | st.just([math.nan]),
    "combine": junk | st.integers(),
    "max_length": junk.filter(lambda value: value is not None) | st.booleans() | st.floats() | st.integers(max_value=0),
}


@on_tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("name", invalid)
@settings(deadline=None, derandomize=True)
@given(data=st.data())
def test_an_invalid_argument_is_always_a_value_or_type_error_that_names_it(name: str, data: st.DataObject) -> None:
    with pytest.raises((ValueError, TypeError), match=f"`{name}`"):
        SinusoidalPositionEncoding(**{name: data.draw(invalid[name])})


LENGTHS = (
    st.sampled_from([0, 1, 7, 512, 1025]) if IS_JAX else st.integers(0, 40) | st.sampled_from([511, 512, 513, 1025])
)

# Rounding error of a value of at most 1, by the dtype of the outputs. It is half of the last of 8, 11 or 24 bits.
ROUNDING = {"float32": 0.0, "mixed_bfloat16": 2.0**-9, "mixed_float16": 2.0**-12}


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[int, int], dict[str, Any], np.ndarray]:
    """Draws a configuration, a batch and a length, call arguments, and the positions that they mean."""
    length, start = draw(LENGTHS), draw(st.integers(-5000, 5000))
    config = {"start_index": draw(st.integers(-70_000, 70_000)), "layout": draw(st.sampled_from(get_args(Layout)))}
    config["endpoint"] = draw(st.booleans())
    config["min_timescale"], config["max_timescale"] = draw(st.sampled_from([(1.0, 1e4), (0.3, 5e2), (10.0, 7e5)]))
    config["dtype"] = draw(st.sampled_from(sorted(ROUNDING)))
    dtype = draw(st.sampled_from(["int16", "int32", "int64", "float32", "float64"]))
    reach = 2**15 if dtype == "int16" else 2**20
    values = np.random.default_rng(draw(st.integers(0, 2**32))).uniform(-reach, reach, length).astype(dtype)
    # JAX keeps float32 of what is given as float64.
    held = values.astype("float32") if dtype == "float64" else values
    arguments: dict[str, Any] = {}
    positions = np.arange(length, dtype="float64")
    if draw(st.booleans()):
        arguments["positions"], positions = held, held.astype("float64")
    batch = draw(st.integers(1, 3))
    if "positions" in arguments and draw(st.booleans()):
        arguments["positions"], positions = np.stack([held] * batch), np.stack([positions] * batch)
    if draw(st.booleans()):
        shift = draw(st.sampled_from([start, np.int32(start), start + np.arange(batch, dtype="int32")]))
        arguments["start_index"], positions = shift, positions + np.asarray(shift)[..., np.newaxis]
    return config, (batch, length), arguments, positions


def assert_a_call_is_exact(
    call: tuple[dict[str, Any], tuple[int, int], dict[str, Any], np.ndarray], channels: int
) -> None:
    config, shape, arguments, positions = call
    layer = SinusoidalPositionEncoding(**config, combine="replace")
    signal = ops.cast(layer(np.zeros((*shape, channels), "float32"), **arguments), "float32")
    keys = {key: config[key] for key in ("layout", "endpoint", "min_timescale", "max_timescale")}
    expected = timing_signal(positions + config["start_index"], channels, **keys)
    # Rounded to the dtype of the outputs, a value within one is off by half of what its mantissa's last bit is worth.
    allowed = EXACT + ROUNDING[config["dtype"]]
    assert np.abs(ops.convert_to_numpy(signal) - expected).max(initial=0) <= allowed


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=EXAMPLES)
@given(calls(), widths)
def test_positions_and_starts_of_every_kind_are_exact(call: Any, channels: int) -> None:
    assert_a_call_is_exact(call, channels)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)  # JAX compiles for each length
@settings(deadline=None, derandomize=True, max_examples=2000)
@given(calls(), widths)
def test_positions_and_starts_of_every_kind_are_exact_many_times(call: Any, channels: int) -> None:
    assert_a_call_is_exact(call, channels)
