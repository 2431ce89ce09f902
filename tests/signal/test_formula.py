"""The formula in float64 is exact wherever an angle may lie: measured against arithmetic that does not round."""

import math

import numpy as np
import pytest

from keras_pe import timing_signal
from tests.raised import about
from tests.signal.exactly import sine_and_cosine


@pytest.mark.parametrize("timescales", [[1e-6, 3e-5], [1e-3, 0.7e-2], [0.1, 1.0], [1 / math.pi, 1e4], [1e-4, 1e305]])
def test_sines_of_many_turns_are_exact(timescales: list[float]) -> None:
    rng = np.random.default_rng(0)
    positions = np.concatenate([rng.integers(-(2**24), 2**24, 20), rng.uniform(-(2**24), 2**24, 20), [0, 2**24 - 1]])
    exact = np.array([[sine_and_cosine(each, scale) for scale in timescales] for each in positions.tolist()])
    signal = timing_signal(positions, 4, layout="interleaved", timescales=timescales).reshape(exact.shape)
    # Up to 2**24 radians an angle is rounded to 2**-53 of itself, 1.9e-9; beyond, what was lost is put back.
    assert np.abs(signal - exact).max() <= 2.0**-29 + 2.0**-51


@pytest.mark.parametrize("timescale", [1e-3, 1e-10, 1e-16, 1e-30, 1e-60])
def test_an_angle_of_any_number_of_turns_is_exact(timescale: float) -> None:
    positions = np.array([0, 1, 7, 600, 2**24 - 1, -(2**24)])
    exact = np.array([sine_and_cosine(int(each), timescale) for each in positions])
    # An angle of up to 2**24 radians is off by half a unit in the last place.
    np.testing.assert_allclose(timing_signal(positions, 2, timescales=[timescale]), exact, rtol=0, atol=2e-9)


def test_angles_that_no_float64_reduces_are_refused() -> None:
    for timescale in (1e-300, 5e-324):
        with pytest.raises(ValueError, check=about("timescales")):
            timing_signal([1], 2, timescales=[timescale])
