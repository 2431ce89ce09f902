from pathlib import Path

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import onnx_results

DIVIDENDS = [-7, 7, -8, 8, 0, -1, 1, 5, -5, 2**31 - 1, -(2**31), -(2**31), 2**31 - 1]
DIVISORS = [3, -3, 4, -4, 5, 8, -8, 5, -5, -3, 3, 7, 2]


@pytest.mark.parametrize("opset", [15, 18])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_division_rounds_down_whatever_the_signs(dtype: str, opset: int, tmp_path: Path) -> None:
    x, y = np.array(DIVIDENDS, dtype), np.array(DIVISORS, dtype)
    quotient, remainder = onnx_results(
        lambda t: (t // y, ops.mod(t, y)), [x], tmp_path, is_static=True, opset_version=opset
    )
    np.testing.assert_array_equal(quotient, x // y, strict=True)
    np.testing.assert_array_equal(remainder, x % y, strict=True)


def test_int64_keeps_what_float32_and_int32_cannot_hold(tmp_path: Path) -> None:
    x, y = np.array([2**62 + 1, -(2**62) - 1]), np.array(3)
    quotient, remainder = onnx_results(lambda t: (t // y, ops.mod(t, y)), [x], tmp_path)
    assert quotient.tolist() == [(2**62 + 1) // 3, (-(2**62) - 1) // 3]
    assert remainder.tolist() == [(2**62 + 1) % 3, (-(2**62) - 1) % 3]


def test_the_float_remainder_is_exact_also_of_a_large_quotient(tmp_path: Path) -> None:
    x = np.array([1e6, -1e6, 7.5, -7.5, 7.5, -7.5, 6.0, 0.0], "float32")
    y = np.array([0.1, 0.1, 2.0, 2.0, -2.0, -2.0, 3.0, 3.0], "float32")
    (actual,) = onnx_results(ops.mod, [x, y], tmp_path)
    truth = np.mod(x.astype("float64"), y.astype("float64"))
    # fmod is exact; putting the sign right is one addition.
    np.testing.assert_allclose(actual, truth, rtol=0, atol=np.finfo("float32").eps * np.abs(y).max())
