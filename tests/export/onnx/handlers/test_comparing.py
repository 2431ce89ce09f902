"""Comparisons of integers: exact, also where float32 cannot tell neighbors apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import onnx_results


@pytest.mark.quick_rows(8)
@pytest.mark.parametrize("opset", [15, 18])
@pytest.mark.parametrize("compare", [ops.greater, ops.greater_equal, ops.less, ops.less_equal])
@pytest.mark.parametrize(
    ("dtype", "border"), [("int32", 2**24 + 4), ("int64", 1_700_000_000), ("int64", 2**40), ("uint32", 2**31)]
)
def test_neighbors_are_told_apart_however_large_they_are(
    compare: Callable[..., Any], dtype: str, border: int, opset: int, tmp_path: Path
) -> None:
    x = np.array([border - 1, border, border + 1, 0], dtype)
    (actual,) = onnx_results(lambda t: compare(t, np.array(border, dtype)), [x], tmp_path, opset_version=opset)
    expected = getattr(np, compare.__name__)(x, border)
    np.testing.assert_array_equal(actual, expected, strict=True)
