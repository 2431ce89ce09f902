"""The formula in float64 is exact wherever an angle may lie: measured against arithmetic that does not round."""

import math
from fractions import Fraction

import numpy as np
import pytest

from keras_pe import timing_signal

# pi to 60 digits: 2**24 positions over a timescale of 1e-6 make 2.7e12 turns, and leave 47 digits of the last one.
PI = Fraction(3141592653589793238462643383279502884197169399375105820974944, 10**60)


def exact_wave(position: float, timescale: float) -> tuple[float, float]:
    """Returns the sine and the cosine, from the angle without its whole turns."""
    angle = Fraction(position) / Fraction(timescale)
    rest = float(angle - 2 * PI * round(angle / (2 * PI)))
    return math.sin(rest), math.cos(rest)


@pytest.mark.parametrize("timescales", [[1e-6, 3e-5], [1e-3, 0.7e-2], [0.1, 1.0], [1 / math.pi, 1e4], [1e-4, 1e305]])
def test_sines_of_many_turns_are_exact(timescales: list[float]) -> None:
    rng = np.random.default_rng(0)
    positions = np.concatenate([rng.integers(-(2**24), 2**24, 20), rng.uniform(-(2**24), 2**24, 20), [0, 2**24 - 1]])
    exact = np.array([[exact_wave(each, scale) for scale in timescales] for each in positions.tolist()])
    signal = timing_signal(positions, 4, layout="interleaved", timescales=timescales).reshape(exact.shape)
    # Up to 2**24 radians an angle is rounded to 2**-53 of itself, 1.9e-9; beyond, what was lost is put back.
    assert np.abs(signal - exact).max() <= 2.0**-29 + 2.0**-51
