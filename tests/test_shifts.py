"""The shift matrix moves the signal by an offset, in every layout."""

import itertools
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_pe import shift_matrix, timing_signal
from keras_pe.signal.layouts import Layout
from tests.raised import about

POSITIONS = np.concatenate([np.arange(64), [255, 256, 1000], -np.arange(1, 9)])


@pytest.mark.slow
def test_shift_matrix_moves_the_signal() -> None:
    widths, offsets = (1, 2, 3, 4, 5, 8, 63, 64, 512), (0, 1, -1, 7, 100, 0.5)
    for layout, endpoint, channels in itertools.product(get_args(Layout), (True, False), widths):
        before = timing_signal(POSITIONS, channels, layout=layout, endpoint=endpoint)
        for offset in offsets:
            after = timing_signal(POSITIONS + offset, channels, layout=layout, endpoint=endpoint)
            matrix = shift_matrix(offset, channels, layout=layout, endpoint=endpoint)
            # Angles reach 1,100 radians, which float64 holds to 1.2e-13; three of them meet in one product.
            said = f"{layout}, {endpoint=}, {channels=}, {offset=}"
            np.testing.assert_allclose(before @ matrix, after, rtol=0, atol=1e-12, err_msg=said)


def test_shift_matrix_takes_timescales_as_the_signal_does() -> None:
    scales = [0.5, 3.0, 70.0]
    before, after = timing_signal([[5], [12]], 7, layout="interleaved", timescales=scales)
    matrix = shift_matrix(7, 7, layout="interleaved", timescales=scales)
    np.testing.assert_allclose(before @ matrix, after, rtol=0, atol=1e-12)


@pytest.mark.slow
@given(
    first=st.floats(-1000, 1000),
    second=st.floats(-1000, 1000),
    channels=st.integers(1, 33),
    layout=st.sampled_from(["concatenated", "interleaved"]),
)
def test_shifts_add_up_and_keep_lengths(first: float, second: float, channels: int, layout: Layout) -> None:
    one, two, both = (shift_matrix(k, channels, layout=layout) for k in (first, second, first + second))
    np.testing.assert_allclose(one @ two, both, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one @ one.T, np.eye(channels), rtol=0, atol=1e-14)


def test_no_shift_is_the_identity() -> None:
    np.testing.assert_array_equal(shift_matrix(0, 9), np.eye(9))


def test_a_sine_without_its_cosine_is_refused() -> None:
    with pytest.raises(ValueError, match="a sine without its cosine, which no matrix can shift"):
        shift_matrix(1, 5, timescales=[1.0, 2.0, 3.0])


@pytest.mark.parametrize("offset", ["1", None, True, [1]])
def test_an_offset_that_is_no_number_is_refused(offset: object) -> None:
    with pytest.raises(TypeError, check=about("offset")):
        shift_matrix(offset, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("offset", [np.nan, np.inf])
def test_an_infinite_offset_is_refused(offset: float) -> None:
    with pytest.raises(ValueError, check=about("offset")):
        shift_matrix(offset, 4)
