"""A constant of a layer is inferred from the artifact's values, if these depend on it."""

import numpy as np
import pytest

from keras_pe.export.parity.diagnosis.edits import output_called
from keras_pe.export.parity.diagnosis.relations.number_fits import fit_numbers
from keras_pe.export.results import Cause

X = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("compute", "was", "has_become"),
    [
        (lambda slope: np.where(X < 0, slope * X, X), 0.3, 0.17),
        (lambda offset: X + offset, 0.0, -2.5),
        (lambda epsilon: X / np.sqrt(X.var(axis=-1, keepdims=True) + epsilon), 1e-3, 0.05),
        (lambda epsilon: X / np.sqrt(X.var(axis=-1, keepdims=True) + np.float32(epsilon)), 1e-12, 0.05),
        (lambda temperature: np.tanh(X * temperature), 1.0, 0.6),
    ],
    ids=["slope", "offset", "epsilon", "small epsilon", "temperature"],
)
def test_a_number_is_found_from_what_it_does(compute, was, has_become):
    # float32 results of order 1 tell a number of order 1 to some 1e-6.
    assert fit_numbers(compute, [was], compute(was), compute(has_become)) == pytest.approx([has_become], rel=1e-3)


@pytest.mark.parametrize(("factor", "cause"), [(-1.0, Cause.FLIPPED_SIGN), (-1.1, Cause.SCALED_VALUES)])
def test_values_times_minus_1_have_the_other_sign(factor, cause):
    assert output_called("the right values").scaling_edit(Cause.SCALED_VALUES).edit({"factor": factor}).cause is cause


def test_two_numbers_are_found_together():
    def compute(scale, offset):
        return X * scale + offset

    assert fit_numbers(compute, [1.0, 0.0], X, compute(0.5, -1.0)) == pytest.approx([0.5, -1.0], rel=1e-3)


def test_layer_has_numbers_of_python_beside_its_float32():
    def compute(base):
        assert type(base) is float  # TensorFlow has no power of a float64 and a float32
        return np.power(base, np.abs(X))

    assert fit_numbers(compute, [0.8], compute(0.8), compute(0.9)) == pytest.approx([0.9], rel=1e-3)


def test_a_number_that_changes_nothing_and_a_difference_in_one_value_tell_none():
    assert fit_numbers(lambda number: X, [1.0], X, X + 1) is None
    changed = X.copy()
    changed[0, 0] += 1
    assert fit_numbers(lambda number: X * number, [1.0], X, changed) is None


def test_a_fit_to_values_with_a_nan_ends_without_a_number():
    broken = 2 * X
    broken[0, 0] = np.nan
    assert fit_numbers(lambda number: X * number, [1.0], X, broken) is None
