"""The bound on a rate is the exact one, and says what people know by heart."""

import pytest
import scipy.special

from keras_pe.export.parity.statistics.confidence import upper_bound


@pytest.mark.parametrize(("events", "trials"), [(0, 1), (0, 100), (1, 3), (3, 1000), (500, 1000), (20_000, 1_000_000)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_it_is_the_quantile_of_the_beta_distribution(events: int, trials: int, confidence: float) -> None:
    exact = scipy.special.betaincinv(events + 1, trials - events, confidence)
    # The bisection stops at 1e-12; a sum of 20,000 rounded logarithms is good for some 1e-8 of the rate.
    assert upper_bound(events, trials, confidence) == pytest.approx(exact, rel=1e-7)


def test_nothing_in_a_million_is_fewer_than_three_in_a_million() -> None:
    assert upper_bound(0, 1_000_000) == pytest.approx(2.9957e-6, rel=1e-4)


def test_no_rate_is_excluded_if_all_rows_fail() -> None:
    assert upper_bound(7, 7) == 1.0


@pytest.mark.parametrize(("events", "trials", "confidence"), [(-1, 3, 0.9), (4, 3, 0.9), (1, 3, 0.0), (1, 3, 1.0)])
def test_an_invalid_rate_is_refused(events: int, trials: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="Received"):
        upper_bound(events, trials, confidence)
