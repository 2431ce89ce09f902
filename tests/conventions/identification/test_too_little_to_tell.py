"""A table that is too small to identify its convention gets no name, and `identify` reports the ambiguity."""

import numpy as np
import pytest

from keras_pe import timing_signal
from keras_pe.conventions import Match, identify


def circles(rates: list[float], length: int, first: float = 0.0) -> np.ndarray:
    """Sine and cosine of each rate, side by side."""
    return timing_signal(
        first + np.arange(length), 2 * len(rates), layout="interleaved", timescales=1 / np.array(rates)
    )


def test_the_month_of_a_year_is_no_convention() -> None:
    [match] = identify(circles([2 * np.pi / 12], 48, first=1))
    assert match.conventions == match.timescales_of == ()
    assert match.max_timescale is None
    assert {"conventions", "timescales_of", "layout", "max_timescale"} <= set(match.undecided)
    # It does report twelve rows a turn, and that the first row is one after the sine's zero.
    assert 2 * np.pi * match.timescales[0] == pytest.approx(12)
    assert (match.start_index, match.other_starts[:2]) == (1, (13, 25))
    assert "start_index" in match.undecided


@pytest.mark.quick_rows(10)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("length", [4, 12, 1000])
@pytest.mark.parametrize("period", [7.0, 12.0, 24.0, 60.0, 365.25, 2 * np.pi])
def test_no_circle_of_two_columns_is_a_convention(period: float, length: int, dtype: type) -> None:
    for match in identify(circles([2 * np.pi / period], length).astype(dtype)):
        assert match.conventions == match.timescales_of == ()
        assert "conventions" in match.undecided


def test_the_identification_of_a_circle_reproduces_the_table() -> None:
    table = circles([0.3], 20, first=5)
    [match] = identify(table)
    arguments = match.layer_arguments()
    again = timing_signal(arguments.pop("start_index") + np.arange(20), 2, **arguments)
    np.testing.assert_allclose(again, table, rtol=0, atol=match.max_abs_diff + 1e-12)


@pytest.mark.slow
def test_two_circles_of_any_rates_are_hardly_ever_a_convention() -> None:
    # Two rates and two angles that a longest timescale and one of 2,048 first positions might explain by chance.
    rng = np.random.default_rng(0)
    named: list[Match] = []
    for _ in range(150):
        table = circles([1.0, 1.0], 4)
        rates, angles = rng.uniform(0, 2, 2), rng.uniform(0, 2 * np.pi, 2)
        turned = np.arange(4)[:, np.newaxis] * rates + angles
        table[:, 0::2], table[:, 1::2] = np.sin(turned), np.cos(turned)
        named += [match for match in identify(table.astype(np.float32)) if match.conventions]
    assert not named


def test_a_table_that_tells_a_convention_leaves_nothing_undecided() -> None:
    [match] = identify(timing_signal(np.arange(20), 16))
    assert match.undecided == ()
    assert match.conventions
    assert match.max_timescale == 10_000
