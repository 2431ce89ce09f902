"""The measurement of one output: every kind of difference, counted by rows."""

import ml_dtypes
import numpy as np
import pytest

from keras_pe.export.comparison.output_decisions import Decision
from keras_pe.export.parity.statistics.runtime_statistics import OutputStatistics
from keras_pe.export.parity.work.batch_measurement import measure_output
from keras_pe.export.parity.work.row_decisions import MAX_CLASSES


def measure(expected: np.ndarray, actual: np.ndarray, **options: object) -> tuple[OutputStatistics, list[int]]:
    defaults: dict = {"allowed": 0.5, "decision": None, "noise": 0.0}
    statistics, verdicts = measure_output(expected, actual, **{**defaults, **options})
    return statistics, np.flatnonzero(verdicts.failed).tolist()


def test_a_row_fails_by_its_largest_difference() -> None:
    expected = np.zeros((4, 2, 3), np.float32)
    actual = expected.copy()
    actual[1, 0, 2], actual[2, 1, 1] = 0.4, -0.75
    found, failed = measure(expected, actual)
    assert failed == [2]
    assert (found.rows, found.values, found.out_of_tolerance, found.max_abs_diff) == (4, 24, 1, 0.75)
    assert found.errors.total == 4
    assert found.errors.quantile(0.5) == 0.0


@pytest.mark.parametrize("one", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_must_be_the_same_on_both_sides(one: float) -> None:
    expected = np.array([[1.0, one], [1.0, one], [1.0, 2.0]], np.float32)
    found, failed = measure(expected, np.array([[1.0, one], [1.0, 2.0], [1.0, one]], np.float32))
    assert failed == [1, 2]
    assert found.clashes == 2
    assert (found.expected_nan, found.expected_inf) == ((2, 0) if np.isnan(one) else (0, 2))
    assert (found.actual_nan, found.actual_inf) == ((2, 0) if np.isnan(one) else (0, 2))
    assert found.max_abs_diff == 0.0


def test_infinities_of_both_signs_clash_whatever_is_allowed() -> None:
    found, failed = measure(np.array([[np.inf]]), np.array([[-np.inf]]), allowed=np.inf)
    assert failed == [0]
    assert found.clashes == 1


def test_values_that_overflow_only_in_the_model_are_not_compared() -> None:
    expected = np.array([[1.0, np.inf], [np.inf, 2.0]], np.float32)
    truth = np.array([[1.0, 1e39], [1e39, 2.0]])
    found, failed = measure(expected, np.array([[1.0, 7.0], [7.0, 3.0]], np.float32), truth=truth)
    assert failed == [1]
    assert (found.clashes, found.expected_inf, found.max_abs_diff) == (0, 2, 1.0)


@pytest.mark.parametrize("dtype", ["int32", "bool", object, "<U1", "uint8"])
def test_values_other_than_floats_must_be_equal(dtype: object) -> None:
    expected = np.array([["1"], ["0"]]).astype("int32" if dtype not in (object, "<U1") else dtype).astype(dtype)
    found, failed = measure(expected, expected[[0, 0]])
    assert failed == [1]
    assert (found.out_of_tolerance, found.max_abs_diff) == (1, 1.0)


def test_bfloat16_is_a_float() -> None:
    expected = np.array([[1.0], [2.0]], ml_dtypes.bfloat16)
    found, failed = measure(expected, np.array([[1.25], [3.0]], np.float32))
    assert (found.max_abs_diff, failed) == (1.0, [1])


def test_an_error_alone_does_not_fail_if_decisions_count() -> None:
    expected = np.array([[0.6, 0.4], [0.6, 0.4], [0.2, 0.8]])
    actual = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    found, failed = measure(expected, actual, allowed=None, decision=Decision("argmax"))
    assert failed == [1]
    assert (found.decisions, found.changed_decisions, found.changed, found.ties) == (3, 1, 1, 0)
    assert found.classes == {(0, 1): 1}
    assert found.margins.total == 3
    assert found.margins.quantile(1.0) == pytest.approx(2 * 0.3 / 0.2, rel=0.125)


def test_a_margin_within_the_noise_makes_a_tie() -> None:
    expected = np.array([[0.5, 0.5 - 1e-7], [0.5, 0.4]])
    found, failed = measure(expected, expected[:, ::-1], allowed=None, decision=Decision("argmax"), noise=1e-6)
    assert failed == [0, 1]
    assert (found.changed, found.ties) == (2, 1)


def test_only_the_expected_one_of_many_classes_is_reported() -> None:
    expected = np.eye(MAX_CLASSES + 1)[[3, 3, 5]]
    actual = np.eye(MAX_CLASSES + 1)[[4, 7, 5]]
    found, _ = measure(expected, actual, allowed=None, decision=Decision("argmax"))
    assert found.classes == {(3, -1): 2}
