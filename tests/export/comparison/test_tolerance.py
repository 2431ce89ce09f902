"""An accepted precision is measured by the scale of a value's own channel, never by another value."""

import numpy as np
import pytest

from keras_pe.export.comparison.compare import compare_arrays
from keras_pe.export.comparison.tolerance import accepting, rounding_noise, within_lines
from keras_pe.export.results import PRECISIONS, Allowance

RNG = np.random.default_rng(0)
BOXES, SCORES = 400 * RNG.standard_normal((8, 4)), RNG.uniform(size=(8, 3))
STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "int8": 1 / 254, "int4": 1 / 14}


def _compare_values(expected, actual, precision, noise=None):
    expected, actual = expected.astype(np.float32), actual.astype(np.float32)
    return compare_arrays("y", expected, actual, noise=noise, policy=accepting(Allowance(precision=precision)))


def _noise(array, precision):
    """Returns how far rounding moves values: half a step of the precision, as large as their channel."""
    return STEP[precision] * np.broadcast_to(np.abs(array).max(axis=0, keepdims=True), array.shape) / 4


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("is_known", [True, False])
def test_scores_beside_boxes_are_held_to_rounding_of_scores(precision, axis, is_known):
    parts = [BOXES, SCORES] if axis else [BOXES.T, SCORES.T]
    both, negated = (np.concatenate([parts[0], sign * parts[1]], axis=axis) for sign in (1, -1))
    noise = np.concatenate([_noise(each, precision) for each in (BOXES, SCORES)], axis=1)
    noise = (noise if axis else noise.T) if is_known else None
    rounded = both + (0 if noise is None else noise)
    assert _compare_values(both, rounded, precision, noise).passed
    found = _compare_values(both, negated, precision, noise)
    assert not found.passed
    assert found.worst_index[axis] >= 4
    shuffled = np.concatenate([parts[0], np.flip(parts[1], axis)], axis=axis)
    assert not _compare_values(both, shuffled, precision, noise).passed


def test_scores_that_a_scale_of_boxes_rounds_to_0_or_2_and_a_half_fail_in_int8():
    both = np.concatenate([BOXES, SCORES], axis=1)
    step = np.abs(both).max() / 127
    noise = np.concatenate([_noise(BOXES, "int8"), _noise(SCORES, "int8")], axis=1)
    assert not _compare_values(both, np.rint(both / step) * step, "int8", noise).passed


def test_probabilities_may_be_off_by_a_step_of_8_bits_however_small_they_are():
    classes = RNG.dirichlet(np.full(50, 0.05), size=8)
    rounded = np.rint(classes * 255) / 255
    tiny = np.full(classes.shape, 1e-6)
    assert _compare_values(classes, rounded, "int8", tiny).passed
    assert not _compare_values(classes, np.roll(classes, 1, axis=1), "int8", tiny).passed
    assert not _compare_values(classes, rounded, "float16", tiny).passed


@pytest.mark.parametrize(("error", "passed"), [(2.0**-24, True), (2.0**-23, False)])
def test_a_probability_near_0_may_be_off_by_the_step_of_the_smallest_floats(error, passed):
    """Floats of 16 bits below 2**-14 are 2**-24 apart."""
    classes = np.array([[1 - 1e-7, 1e-7], [1 - 2e-6, 2e-6]])
    off = classes + np.array([[0, error], [0, 0]])
    assert _compare_values(classes, off, "float16", 1e-12 * np.ones((2, 2))).passed is passed


def test_noise_of_16_bits_is_half_a_step_near_0():
    drawn = rounding_noise(np.array([0.0, 1e-7, 2.0**-15] * 100), "float16", np.random.default_rng(0))
    assert 2.0**-26 < np.abs(drawn).max() <= 2.0**-25


def test_a_line_is_measured_by_the_axis_along_which_it_is_smallest():
    values = np.array([[1.0, 100.0], [2.0, 1000.0]])
    assert within_lines(values).tolist() == [[2.0, 100.0], [2.0, 1000.0]]
    assert within_lines(np.array([1.0, 5.0])).tolist() == [1.0, 5.0]
