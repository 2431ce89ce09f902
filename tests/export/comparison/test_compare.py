"""Comparing: every number that a report states, and everything that must not count as equal."""

import numpy as np
import pytest

from keras_pe.export.comparison.compare import compare_arrays, compare_outputs
from keras_pe.export.results import Problem

EXPECTED = np.array([[1.0, -2.0], [4.0, 0.5]], np.float32)


def test_equal_arrays_pass_with_nothing_required():
    result = compare_arrays("y", EXPECTED, EXPECTED.copy())
    assert result.passed
    assert (result.max_abs_diff, result.min_passing_tolerance, result.fraction_out_of_tolerance, result.max_ulp) == (
        0,
        0,
        0,
        0,
    )


def test_every_figure_of_a_difference_is_right():
    actual = EXPECTED.copy()
    actual[1, 0] += 2**-10  # 2**-10 is 2**11 units of float32 between 4 and 8, where the unit is 2**-21
    result = compare_arrays("y", EXPECTED, actual)
    assert not result.passed
    assert result.max_abs_diff == result.min_passing_tolerance == 2**-10
    assert result.max_rel_diff == 2**-12
    assert result.worst_index == (1, 0)
    assert (result.expected, result.actual) == (4.0, 4.0 + 2**-10)
    assert result.rms == pytest.approx(2**-11)
    assert result.fraction_out_of_tolerance == 0.25
    assert 2**10 <= result.max_ulp <= 2**12
    assert result.cosine == pytest.approx(1.0)


def test_nan_equals_nan_and_infinity_the_same_infinity():
    array = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert compare_arrays("y", array, array.copy(), array.astype(np.float64)).passed


@pytest.mark.parametrize(("place", "value"), [(3, np.nan), (3, np.inf), (0, 1.0), (1, -np.inf), (1, 3.0)])
def test_nan_and_infinity_against_another_value_fail_at_any_tolerance(place, value):
    array = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    actual = array.copy()
    actual[place] = value
    result = compare_arrays("y", array, actual)
    assert not result.passed
    assert result.min_passing_tolerance == np.inf
    assert result.worst_index == (place,)
    assert result.problem is not None


def test_missing_and_extra_outputs_are_failures_of_their_own():
    results = compare_outputs({"a": EXPECTED, "b": EXPECTED}, {"b": EXPECTED, "c": EXPECTED})
    assert [(r.output, r.passed, r.problem) for r in results] == [
        ("a", False, Problem.MISSING),
        ("b", True, None),
        ("c", False, Problem.EXTRA),
    ]


def test_a_shape_that_would_broadcast_is_a_failure():
    result = compare_arrays("y", EXPECTED, EXPECTED[:1])
    assert not result.passed
    assert result.problem is Problem.SHAPE
    assert (result.actual_shape, result.shape) == ((1, 2), (2, 2))


@pytest.mark.parametrize(("expected", "actual", "serves"), [
    ("float32", "float64", False),
    ("float32", "float16", False),
    ("float16", "float32", True),
    ("int32", "int64", False),
    ("float32", "int32", False),
    ("bool", "bool", True),
])  # fmt: skip
def test_only_a_half_precision_output_may_come_back_in_another_dtype(expected, actual, serves):
    array = np.ones((2, 2))
    assert compare_arrays("y", array.astype(expected), array.astype(actual)).passed is serves


def test_integers_must_be_equal():
    result = compare_arrays("y", np.array([1, 5]), np.array([1, 6]))
    assert not result.passed
    assert (result.max_abs_diff, result.worst_index, result.fraction_out_of_tolerance) == (1, (1,), 0.5)
    assert compare_arrays("y", np.array([1, 5]), np.array([1, 5])).passed


def test_texts_must_be_equal():
    texts = np.array(["a", "b"], object)
    assert compare_arrays("y", texts, texts.copy()).passed
    assert not compare_arrays("y", texts, np.array(["a", "c"], object)).passed


def test_the_noise_floor_is_what_keras_itself_gets_wrong():
    truth = np.array([1.0, 2.0])
    expected = np.array([1.0, 2.0001], np.float32)  # Keras is 1e-4 off
    near = compare_arrays("y", expected, np.array([1.0005, 2.0], np.float32), truth)
    far = compare_arrays("y", expected, np.array([1.001, 2.0], np.float32), truth)
    assert near.noise_floor == pytest.approx(1e-4, rel=1e-2)
    assert near.passed
    assert near.noise_ratio == pytest.approx(5, rel=1e-2)
    assert not far.passed


def test_a_lucky_keras_does_not_make_rounding_an_error():
    truth = np.array([1.0, 2.0])
    rounded = np.array([1.0, np.nextafter(np.float32(2), np.float32(3))])
    assert compare_arrays("y", truth.astype(np.float32), rounded.astype(np.float32), truth).passed


def test_argmax_agreement_is_counted_where_rows_are_probabilities():
    scores = np.array([[0.2, 0.8], [0.6, 0.4]], np.float32)
    assert compare_arrays("y", scores, scores[:, ::-1].copy()).argmax_agreement == 0.0
    assert compare_arrays("y", scores, scores.copy()).argmax_agreement == 1.0
    assert compare_arrays("y", EXPECTED, EXPECTED.copy()).argmax_agreement is None


def test_an_empty_array_compares_no_value():
    empty = np.zeros((0, 3), np.float32)
    result = compare_arrays("y", empty, empty)
    assert result.passed
    assert result.count == 0


def test_a_number_without_axes_is_compared_as_any_other():
    one = np.array(1.5, np.float32)
    same = compare_arrays("y", one, one, truth=np.array(1.5))
    assert same.passed
    assert same.count == 1
    other = compare_arrays("y", one, np.array(2.0, np.float32), truth=np.array(1.5))
    assert not other.passed
    assert (other.max_abs_diff, other.worst_index) == (0.5, ())


def test_values_that_overflow_in_keras_are_not_compared():
    truth = np.array([1.0, 7e4])
    expected = np.array([1.0, np.inf], np.float16)
    for actual in (np.inf, np.nan, 7e4):
        result = compare_arrays("y", expected, np.array([1.0, actual], np.float32), truth)
        assert result.passed
        assert result.count == 1
    assert not compare_arrays("y", expected, np.array([np.inf, 7e4], np.float32), truth).passed


def test_the_limit_of_a_type_is_what_keras_answers_and_hides_nothing():
    expected = np.array([np.finfo(np.float32).min, 1.0], np.float32)  # the maximum of nothing
    truth = np.array([np.finfo(np.float64).min, 1.0])
    same = compare_arrays("y", expected, expected, truth=truth)
    assert same.passed
    assert same.tolerance == 8 * 4 * 2.0**-23  # as if there were nothing but the other number
    halved = compare_arrays("y", expected / 2, np.nextafter(expected / 2, np.float32(0)), truth=truth / 2)
    assert halved.passed
    other = compare_arrays("y", expected, np.array([0.0, 1.0], np.float32), truth=truth)
    assert not other.passed
    assert other.worst_index == (0,)
    beside = compare_arrays("y", expected, np.array([expected[0], 1.001], np.float32), truth=truth)
    assert not beside.passed


def test_integers_that_float64_cannot_tell_apart_differ_by_what_they_differ():
    expected, actual = np.array([2**53 + 1, -(2**62)]), np.array([2**53, -(2**62)])
    result = compare_arrays("y", expected, actual)
    assert not result.passed
    assert result.max_abs_diff == result.min_passing_tolerance == 1.0


def test_a_larger_noise_that_is_known_from_elsewhere_widens_the_floor_and_never_narrows_it():
    truth, actual = np.array([1.0, 2.0]), np.array([1.0, 2.00002], np.float32)
    assert not compare_arrays("y", truth.astype(np.float32), actual, truth).passed
    assert compare_arrays("y", truth.astype(np.float32), actual, truth, noise=np.array([1e-5, 0.0])).passed
    assert not compare_arrays("y", truth.astype(np.float32), actual, truth, noise=np.array([1e-9, 0.0])).passed


def test_a_wider_artifact_is_held_to_its_own_precision_and_the_gap_is_told():
    truth = np.array([1.0, 2.0])
    own = np.array([1.0, 2.125], np.float32)  # the model's values in 16 bits
    wrong = np.array([1.0, 2.1], np.float32)
    result = compare_arrays("y", truth.astype(np.float32), wrong, truth, own=own)
    assert not result.passed
    assert result.precision_gap == 0.125


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e155, 1e300])
def test_the_cosine_is_the_same_at_every_scale(scale: float) -> None:
    found = compare_arrays("y", np.array([3.0, 4.0]) * scale, np.array([4.0, 3.0]) * scale).cosine
    assert found == pytest.approx(0.96)
