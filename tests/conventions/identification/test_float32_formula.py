"""Tables of the float32 formula with another longest timescale than 10,000: named right, or said to be ambiguous."""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from keras_pe.conventions import Match, identify
from tests.conventions.identification.test_identification import bfloat16

f32 = np.float32
STORED = {"float32": lambda table: table, "float16": lambda table: table.astype(np.float16), "bfloat16": bfloat16}
# The convention that has this schedule in this layout; nobody interleaves tensor2tensor's.
NAMES = {
    ("paper", "interleaved"): "paper",
    ("paper", "concatenated"): "x-transformers",
    ("tensor2tensor", "concatenated"): "tensor2tensor",
    ("tensor2tensor", "interleaved"): None,
}


def table(way: str, longest: float, schedule: str, layout: str, length: int, channels: int) -> np.ndarray:
    """Computes a table in float32, in one of the ways of writing a power that are in use."""
    pairs = channels // 2
    steps = f32(pairs if schedule == "paper" else pairs - 1)
    index = np.arange(pairs, dtype=f32)
    rates = {
        "exponential": lambda: np.exp(index * f32(-np.log(longest) / steps)),  # tensor2tensor, PyTorch's tutorial
        "power": lambda: f32(1) / np.power(f32(longest), index / steps),
        "power of the inverse": lambda: np.power(f32(1) / f32(longest), index / steps),  # keras-hub
    }[way]()
    angles = np.arange(length, dtype=f32)[:, np.newaxis] * rates.astype(f32)
    waves = np.sin(angles), np.cos(angles)
    signal = np.concatenate(waves, 1) if layout == "concatenated" else np.stack(waves, 2).reshape(length, -1)
    return signal.astype(f32)


def is_right(match: Match, longest: float, schedule: str, layout: str, precision: float) -> bool:
    name = NAMES[schedule, layout]
    named = name in match.conventions if name else not match.conventions and schedule in match.timescales_of
    return named and match.max_timescale == pytest.approx(longest, rel=precision)


def check(cases: Any) -> None:
    found: Counter[str] = Counter()
    for way, longest, channels, length, (schedule, layout), stored in cases:
        matches = identify(STORED[stored](table(way, longest, schedule, layout, length, channels)))
        precision = 1e-5 if stored == "float32" else 5e-2
        right = [is_right(each, longest, schedule, layout, precision) for each in matches]
        undecided = all("conventions" in each.undecided for each in matches)
        case = f"{way}, {longest}, {length} x {channels}, {schedule}, {layout}, {stored}: {matches}"
        # If a table has too little information, no convention is named. Any named convention is among the right ones.
        assert matches, case
        assert undecided or any(right), case
        found["undecided" if undecided else "first" if right[0] else "among"] += 1
        if stored == "float32" and length >= 50:
            # At 8 channels tensor2tensor's to 1,000 is the paper's to 10,000, which more people write.
            assert right[0] or matches[0].max_timescale == 1e4, case
    assert found["first"] >= 0.85 * found.total(), found


@pytest.mark.slow
def test_a_longest_timescale_that_somebody_chose_is_named_first() -> None:
    ways, lengths = itertools.cycle(("exponential", "power", "power of the inverse")), itertools.cycle((20, 50, 200))
    rest = itertools.product((500.0, 5e5), (16, 64), NAMES, STORED)
    check((next(ways), longest, channels, next(lengths), name, kind) for longest, channels, name, kind in rest)


@pytest.mark.exhaustive  # some 5,000 tables; the test above is a sample of them
def test_a_longest_timescale_that_somebody_chose_is_named_first_at_many_sizes() -> None:
    longest = (50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 50_000.0, 5e5, 1e6)
    ways = ("exponential", "power", "power of the inverse")
    check(itertools.product(ways, longest, (8, 16, 64, 256), (12, 50, 200, 1000), NAMES, STORED))


def test_one_sequence_under_two_longest_timescales_is_said_to_be_both() -> None:
    first, second = identify(table("exponential", 500.0, "paper", "concatenated", 200, 64))
    assert (first.conventions, first.max_timescale) == (("x-transformers",), 500.0)
    assert "tensor2tensor" in second.conventions
    # The paper's rates are 500 ** (-i / 32), tensor2tensor's L ** (-i / 31).
    assert second.max_timescale == pytest.approx(500.0 ** (31 / 32), rel=1e-5)


def test_the_rounder_of_two_longest_timescales_comes_first() -> None:
    first, second = identify(table("exponential", 5000.0, "tensor2tensor", "concatenated", 50, 64))
    assert ("tensor2tensor" in first.conventions, first.max_timescale) == (True, 5000.0)
    assert second.max_timescale == 6581.0
    # The paper's next timescale would be the longest of 1, 100, 10,000 and 1,000,000.
    first, second = identify(table("exponential", 1e6, "tensor2tensor", "concatenated", 50, 8))
    assert ("tensor2tensor" in first.conventions, first.max_timescale, second.max_timescale) == (True, 1e6, 1e8)
