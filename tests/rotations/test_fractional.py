"""Positions between whole ones at any rate are within 2.5e-7 of rational arithmetic, from 32 bits and from 64."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import SinusoidalPositionEncoding
from tests.layers.configurations import EXACT, run
from tests.signal.exactly import sine_and_cosine

RNG = np.random.default_rng(3)
POSITIONS = np.concatenate(
    [RNG.uniform(-1, 1, 40), RNG.uniform(-1e6, 1e6, 40), RNG.uniform(-(2**24), 2**24, 40), 10 ** RNG.uniform(-8, 0, 40)]
)
SLOW = [3e2, 1e4, 1e5, 1e6, 1e7, 1e9, 1e12, 1e20]


@pytest.mark.parametrize(
    "rate", [1.0, 100.0, 3000.0, 1e30, *(pytest.param(rate, marks=pytest.mark.slow) for rate in SLOW)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fractions_are_exact_at_fast_rates(rate: float, dtype: str) -> None:
    positions, zeros = POSITIONS.astype(dtype), np.zeros((1, len(POSITIONS), 2), "float32")
    exact = np.array([sine_and_cosine(position, 1 / rate) for position in positions.tolist()])
    given: list[Any] = [positions]
    if dtype == "float32" or keras.config.backend() != "jax":  # JAX has no tensors of 64 bits
        given.append(ops.convert_to_tensor(positions, dtype))
    for each in given:
        layer = SinusoidalPositionEncoding(timescales=[1 / rate], combine="replace")
        assert np.abs(run(layer, zeros, positions=each)[0] - exact).max() <= EXACT
        if keras.config.backend() != "jax":
            layer = SinusoidalPositionEncoding(timescales=[1 / rate], combine="replace", dtype="float64")
            # Ten units and more in the last place of 512 numbers of turns.
            assert np.abs(run(layer, zeros, positions=each)[0] - exact).max() <= 1e-11
