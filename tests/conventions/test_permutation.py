"""Channels are reordered between conventions of one schedule, and refused between two."""

import numpy as np
import pytest

from keras_pe import timing_signal
from keras_pe.conventions import CONVENTIONS, channel_permutation, convention


def signal(name: str, channels: int) -> np.ndarray:
    each = convention(name)
    return timing_signal(np.arange(50), channels, layout=each.layout, timescales=each.timescales(channels))


@pytest.mark.parametrize("channels", [2, 3, 6, 7, 64])
@pytest.mark.parametrize("source", CONVENTIONS)
@pytest.mark.parametrize("target", CONVENTIONS)
def test_the_permutation_turns_one_signal_into_the_other_or_is_refused(source: str, target: str, channels: int) -> None:
    if any(
        channels < each.min_channels or channels % 2 > each.odd_channels for each in map(convention, (source, target))
    ):
        with pytest.raises(ValueError, match="`channels` must be"):
            channel_permutation(source, target, channels)
        return
    same_schedule = np.allclose(np.sort(signal(source, channels)), np.sort(signal(target, channels)), rtol=0, atol=1e-9)
    if not same_schedule:
        with pytest.raises(ValueError, match="timescales differ"):
            channel_permutation(source, target, channels)
        return
    order = channel_permutation(source, target, channels)
    np.testing.assert_allclose(signal(source, channels)[:, order], signal(target, channels), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(np.sort(order), np.arange(channels))


def test_the_refusal_says_how_the_schedules_differ_and_what_to_do() -> None:
    with pytest.raises(
        ValueError, match=r"4 of them \(1, 21.54, 464.2, 1e\+04\) against 4 of them \(1, 10, 100, 1000\)"
    ) as it:
        channel_permutation("tensor2tensor", "paper", 8)
    assert "keras_pe.from_convention('tensor2tensor', 8)" in str(it.value)
