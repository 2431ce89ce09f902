"""Ranges of sizes: the search needs few calls, and a range has a text."""

import pytest

from keras_pe.export.model.sizes.dimensions import SizeRange
from keras_pe.export.model.sizes.ranges import find_range


@pytest.mark.parametrize(
    ("least", "step", "most", "known"),
    [(1, 1, None, 24), (75, 1, None, 96), (32, 32, None, 96), (33, 32, None, 97), (5, 4, 61, 25), (1, 1, 16, 16)],
)
def test_a_range_is_found_around_a_size(least: int, step: int, most: int | None, known: int) -> None:
    asked = 0

    def takes(size: int) -> bool:
        nonlocal asked
        asked += 1
        return size >= least and (size - least) % step == 0 and (most is None or size <= most)

    expected = SizeRange(least, step, most)
    assert find_range(takes, known) == expected
    assert asked < 60
    asked = 0
    assert find_range(takes, known, expected) == expected
    assert asked <= (8 if most else 6)  # a right guess needs few calls


def test_a_size_that_is_rounded_up_is_no_step() -> None:
    def takes(size: int) -> bool:  # 124 counts as 128, as strided convolutions with "same" padding have it
        return -(-size // 8) % 4 == 0

    assert find_range(takes, 96) == SizeRange(32, 32)


def test_a_size_accepted_by_chance_is_not_a_range() -> None:
    squares = {side**2 for side in range(1, 1000)}
    assert find_range(squares.__contains__, 256) == SizeRange(256, 320, 576)


def test_a_wrong_guess_does_no_harm() -> None:
    def takes(size: int) -> bool:
        return size % 8 == 0

    for guess in (SizeRange(), SizeRange(16, 8), SizeRange(4, 4), SizeRange(8, 16), SizeRange(8, 0)):
        assert find_range(takes, 24, guess) == SizeRange(8, 8)


def test_the_nearest_size_is_taken() -> None:
    multiples = SizeRange(32, 4)
    assert [multiples.near(size) for size in (1, 32, 33, 36, 37)] == [32, 32, 36, 36, 40]
    assert SizeRange(1, 1, 16).near(100) == 16
    assert SizeRange(197, 0).near(3) == 197
    assert [SizeRange(given=(224, 64)).near(size) for size in (1, 65, 999)] == [64, 224, 224]
    assert 36 in multiples
    assert 34 not in multiples
