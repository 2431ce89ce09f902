"""Counts in logarithmic steps: nothing is lost, and no order matters."""

import numpy as np
import pytest

from keras_pe.export.parity.statistics.histogram import STEP, Bin, Histogram

VALUES = np.abs(np.random.default_rng(0).standard_cauchy(10_000)) * 1e-6


def test_every_value_is_counted_once() -> None:
    found = Histogram.of(np.concatenate([VALUES, [0.0, 0.0, np.inf]]))
    assert found.total == len(VALUES) + 3
    assert found.bins[0] == Bin(0.0, 0.0, 2)
    assert found.bins[-1] == Bin(np.inf, np.inf, 1)
    for each in found.bins[1:-1]:
        assert each.count == ((each.low <= VALUES) & (each.high >= VALUES)).sum()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99, 0.999, 1.0])
def test_a_quantile_is_at_most_one_step_above_the_true_one(share: float) -> None:
    true = np.sort(VALUES)[int(np.ceil(share * len(VALUES))) - 1]
    assert true <= Histogram.of(VALUES).quantile(share) <= true * (1 + STEP)


def test_parts_merge_into_the_whole_in_any_order() -> None:
    parts = [Histogram.of(part) for part in np.array_split(VALUES, 7)]
    for order in (parts, parts[::-1], parts[3:] + parts[:3]):
        merged = Histogram()
        for part in order:
            merged = merged.merge(part)
        assert merged == Histogram.of(VALUES)
        assert list(merged.counts) == sorted(merged.counts)


def test_nothing_has_a_quantile_of_zero() -> None:
    assert Histogram().quantile(0.5) == 0.0
