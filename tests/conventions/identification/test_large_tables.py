"""A large table is read off its first rows, compared with all of them, and held in memory only once: by the caller."""

import tracemalloc

import numpy as np
import pytest

from keras_pe import timing_signal
from keras_pe.conventions import identify

LENGTH, CHANNELS = 6000, 512


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return timing_signal(np.arange(3, 3 + LENGTH), CHANNELS).astype(np.float32)


@pytest.mark.slow
def test_the_whole_table_is_compared(table: np.ndarray) -> None:
    [match] = identify(table)
    assert match.start_index == 3
    expected = match.scale * timing_signal(np.arange(3, 3 + LENGTH), CHANNELS)
    # Both are float64; the comparison turns its angles on, by some units in the last place.
    assert match.max_abs_diff == pytest.approx(np.abs(expected - table).max(), abs=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("row", [1000, LENGTH - 1])
def test_one_wrong_value_far_from_the_first_rows_is_noticed(table: np.ndarray, row: int) -> None:
    wrong = table.copy()
    wrong[row, 100] += 0.1
    assert identify(wrong) == ()


@pytest.mark.slow
def test_rows_of_another_signal_after_the_first_ones_are_noticed(table: np.ndarray) -> None:
    continued = table.copy()
    continued[3000:] = table[: LENGTH - 3000]
    assert identify(continued) == ()


@pytest.mark.slow
def test_another_longest_timescale_is_fitted_to_the_whole_table() -> None:
    table = timing_signal(np.arange(LENGTH), 256, max_timescale=12_345.0).astype(np.float16)
    match = identify(table)[0]
    assert match.max_timescale == pytest.approx(12_345, rel=1e-6)
    assert match.max_abs_diff < 2.0**-12 + 1e-5  # half a unit of float16 below 1


@pytest.mark.slow
def test_zeroed_rows_anywhere_are_passed_over(table: np.ndarray) -> None:
    table = table.copy()
    table[[0, 1, 5, 3000, LENGTH - 1]] = 0
    [match] = identify(table)
    assert (match.start_index, match.max_abs_diff < 1e-7) == (3, True)


def test_a_value_that_is_no_number_is_refused_wherever_it_stands(table: np.ndarray) -> None:
    table = table.copy()
    table[-1, -1] = np.nan
    with pytest.raises(ValueError, match="finite"):
        identify(table)


@pytest.mark.parametrize("rows", [LENGTH // 2, LENGTH])
def test_memory_does_not_grow_with_the_table(table: np.ndarray, rows: int) -> None:
    tracemalloc.start()
    try:
        assert identify(table[:rows])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The 2**18 values that are looked at closely are 2 MiB in float64; some ten arrays of that size are alive at once.
    assert peak < 40 * 2**20


def test_the_float32_formula_is_recognized_from_its_first_rows_to_where_it_is_off_by_1e_2() -> None:
    rates = np.float32(10_000.0) ** -(np.arange(32, dtype=np.float32) / np.float32(31))
    angles = np.arange(100_000, dtype=np.float32)[:, np.newaxis] * rates
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    [match] = identify(table)
    assert "tensor2tensor" in match.conventions
    assert match.start_index == 0
    assert 1e-3 < match.max_abs_diff < 2e-2
