"""The largest value of a row is NumPy's, whatever the length of the row."""

import numpy as np
import pytest

from keras_pe.export.comparison.output_decisions import last_axis_max


@pytest.mark.parametrize("shape", [(5, 1), (5, 10), (3, 2, 63), (3, 2, 64), (2, 100)])
def test_it_is_the_largest_of_every_row_and_a_nan_where_there_is_one(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape)
    values[0, ..., 0] = np.nan
    np.testing.assert_array_equal(last_axis_max(values), values.max(axis=-1))


def test_it_is_zero_where_a_row_has_no_value() -> None:
    assert last_axis_max(np.zeros((4, 0))).tolist() == [0, 0, 0, 0]
