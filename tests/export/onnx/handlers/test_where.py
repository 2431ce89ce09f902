from pathlib import Path

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import onnx_results

CONDITION = np.array([True, False, True, False])


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8", "bool"])
def test_a_selection_takes_one_branch_in_every_type(dtype: str, tmp_path: Path) -> None:
    x, y = np.array([1, 0, 3, 1]).astype(dtype), np.array([0, 1, 7, 0]).astype(dtype)
    (actual,) = onnx_results(ops.where, [CONDITION, x, y], tmp_path)
    np.testing.assert_array_equal(actual, np.where(CONDITION, x, y), strict=True)


def test_values_that_are_not_selected_leave_no_trace(tmp_path: Path) -> None:
    x, y = np.array([1, np.nan, 2, np.inf], "float32"), np.array([np.nan, 3, -np.inf, 4], "float32")
    (actual,) = onnx_results(lambda c, a, b: ops.where(c, a * 1.0, b * 1.0), [CONDITION, x, y], tmp_path)
    np.testing.assert_array_equal(actual, np.array([1, 3, 2, 4], "float32"), strict=True)
