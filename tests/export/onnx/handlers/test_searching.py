from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import keras_results, onnx_results

SORTED = np.array([-2.0, 0.0, 0.0, 1.0, 3.0], "float32")
VALUES = np.array([-3.0, -2.0, 0.0, 0.5, 3.0, 4.0, np.inf], "float32")


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_counts_ties_on_the_side_asked_for(side: str, tmp_path: Path) -> None:
    (actual,) = onnx_results(lambda s, v: ops.searchsorted(s, v, side=side), [SORTED, VALUES], tmp_path, is_static=True)
    np.testing.assert_array_equal(actual, np.searchsorted(SORTED, VALUES, side=side).astype("int32"), strict=True)


def test_a_value_on_a_boundary_is_in_the_bin_above(tmp_path: Path) -> None:
    (actual,) = onnx_results(lambda x: ops.digitize(x, SORTED[[0, 1, 3]]), [VALUES], tmp_path)
    np.testing.assert_array_equal(actual, np.digitize(VALUES, SORTED[[0, 1, 3]]).astype("int32"), strict=True)


@pytest.mark.parametrize(
    ("value", "boundary"), [(np.float64(1 - 1e-12), 1.0), (np.float64(0.1), 0.1), (np.int32(2**24 - 1), 2.0**24)]
)
def test_a_number_beside_a_boundary_is_not_rounded_onto_it(value: Any, boundary: float, tmp_path: Path) -> None:
    x = np.array([value])

    def call(x: Any) -> Any:
        return ops.digitize(x, np.array([boundary], "float32"))

    np.testing.assert_array_equal(onnx_results(call, [x], tmp_path)[0], keras_results(call, [x])[0], strict=True)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_that_float32_merges_are_told_apart(dtype: str, tmp_path: Path) -> None:
    x = np.array([[2**24, 2**24 + 1, -(2**24), -(2**24) - 1]], dtype)

    def call(x):
        return ops.top_k(x, 4)

    for actual, truth in zip(onnx_results(call, [x], tmp_path), keras_results(call, [x]), strict=True):
        np.testing.assert_array_equal(actual, truth, strict=True)


def test_in_top_k_counts_ties_and_refuses_what_is_not_finite(tmp_path: Path) -> None:
    scores = np.array([[1, 3, 2], [3, 3, 3], [1, np.inf, 2], [np.nan, 1, 0], [1, 2, 3], [1, 2, 3]], "float32")
    targets = np.array([2, 0, 2, 1, 7, -1], "int32")

    def call(t, s):
        return ops.in_top_k(t, s, 2)

    np.testing.assert_array_equal(
        onnx_results(call, [targets, scores], tmp_path), keras_results(call, [targets, scores])
    )
