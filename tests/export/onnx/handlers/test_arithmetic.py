"""Numbers one by one: every digit, sign and limit arrives."""

import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import assert_agrees, onnx_results

EPSILON = float(np.finfo("float32").eps)
EDGES = np.array([[0.0, -0.0, 1.0], [-0.0, 0.0, -1.0], [-np.inf, np.inf, 3e38], [-3e38, 1e-37, -1e-37]], "float32")
# Both sides of zero at every scale at which float32 has digits, and what has no digits left.
SMALL = np.concatenate([sign * np.float32(2.0) ** np.arange(-120, 3, dtype="float32") for sign in (-1, 1)])
DIVIDENDS = [-7, 7, -8, 8, 0, -1, 1, 5, -5, 2**31 - 1, -(2**31), -(2**31), 2**31 - 1]
DIVISORS = [3, -3, 4, -4, 5, 8, -8, 5, -5, -3, 3, 7, 2]


def test_every_pair_of_signs_zeros_and_infinities_has_numpys_angle(tmp_path: Path) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, 1e-30, -1e30, np.inf, -np.inf, np.nan], "float32")
    y, x = (side.ravel() for side in np.meshgrid(values, values))
    # A division, an arctangent to 2 ulp and a subtraction from pi.
    assert_agrees(ops.arctan2, [y, x], tmp_path, [np.arctan2(y, x)], rtol=4 * EPSILON)


@pytest.mark.parametrize("opset", [15, 18])
def test_signbit_sees_the_sign_of_zero(opset: int, tmp_path: Path) -> None:
    assert_agrees(ops.signbit, [EDGES], tmp_path, [np.signbit(EDGES)], opset_version=opset)


def test_other_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="Only the sign bit has an ONNX form"):
        onnx_results(lambda x: ops.view(x, "int32"), [EDGES], tmp_path)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32"])
def test_a_cast_to_fewer_digits_and_back_is_kept(dtype: str, tmp_path: Path) -> None:
    x = np.array([1.0, 1 / 3, -2.7, *([] if dtype == "int32" else [1e-8, 3e37, 70000.0])], "float32")
    assert_agrees(lambda x: ops.cast(ops.cast(x, dtype), "float32") * 2, [x], tmp_path)


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
    expected = getattr(np, compare.__name__)(x, border)
    assert_agrees(lambda t: compare(t, np.array(border, dtype)), [x], tmp_path, [expected], opset_version=opset)


@pytest.mark.parametrize("opset", [15, 18])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_division_is_exact_whatever_the_signs(dtype: str, opset: int, tmp_path: Path) -> None:
    # The divisors are constants: a model that divides by an integer input cannot be tried on zeros.
    beyond_int32 = [2**62 + 1, -(2**62) - 1] if dtype == "int64" else [0, 0]
    x, y = np.array([*DIVIDENDS, *beyond_int32], dtype), np.array([*DIVISORS, 3, 3], dtype)
    expected, options = [x // y, x % y, ops.fmod(x, y)], {"is_static": True, "opset_version": opset}
    assert_agrees(lambda t: (t // y, ops.mod(t, y), ops.fmod(t, y)), [x], tmp_path, expected, **options)


def test_the_float_remainder_is_exact_also_of_a_large_quotient(tmp_path: Path) -> None:
    x = np.array([1e6, -1e6, 7.5, -7.5, 7.5, -7.5, 6.0, 0.0], "float32")
    y = np.array([0.1, 0.1, 2.0, 2.0, -2.0, -2.0, 3.0, 3.0], "float32")
    # fmod is exact; putting the sign right is one addition.
    assert_agrees(ops.mod, [x, y], tmp_path, [np.mod(x.astype("float64"), y.astype("float64"))], atol=3 * EPSILON)


@pytest.mark.parametrize(("function", "exact", "extremes"), [
    (ops.expm1, np.expm1, [-np.inf, -100.0, -20.0, 50.0, 88.0, 100.0]),
    (ops.log1p, np.log1p, [-2.0, -1.0, -0.9999, 1e10, 3e38]),
])  # fmt: skip
def test_every_digit_survives_near_zero(function: Any, exact: Any, extremes: list[float], tmp_path: Path) -> None:
    x = np.concatenate([SMALL[np.abs(SMALL) < 0.9], SMALL[SMALL > 0], [0.0, np.inf, np.nan], extremes]).astype(
        "float32"
    )
    with np.errstate(all="ignore"):
        truth = exact(x.astype("float64")).astype("float32")
    # Five roundings, and up to 2 ulp each in the runtime's Exp, Log and Tanh.
    assert_agrees(function, [x], tmp_path, [truth], rtol=8 * EPSILON)


def test_erfc_is_right_to_the_rounding_of_one(tmp_path: Path) -> None:
    x = np.array([*np.linspace(-5, 5, 101), -np.inf, np.inf], "float32")
    assert_agrees(ops.erfc, [x], tmp_path, [[math.erfc(v) for v in x.tolist()]], atol=4 * EPSILON)


def test_exact_gelu_converts(tmp_path: Path) -> None:
    x = np.linspace(-8, 8, 101, dtype="float32")
    truth = [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    # |x| / 2 times the error of erfc.
    atol = 0.5 * 8 * 4 * EPSILON
    assert_agrees(lambda t: ops.gelu(t, approximate=False), [x], tmp_path, [truth], rtol=EPSILON, atol=atol)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_logarithm_keeps_its_precision(dtype: str, tmp_path: Path) -> None:
    x = np.linspace(0.1, 9, 101, dtype="float32")
    (actual,) = onnx_results(lambda t: ops.log(ops.cast(t, dtype)), [x], tmp_path)
    assert actual.dtype == dtype
    # Two ulp of a logarithm, which is below 4.
    np.testing.assert_allclose(actual, np.log(x.astype(dtype).astype("float64")), rtol=0, atol=8 * np.finfo(dtype).eps)


def test_the_inverse_of_erf_is_right_to_the_rounding_of_its_argument(tmp_path: Path) -> None:
    x = np.concatenate([np.linspace(-0.999, 0.999, 201), 1 - 2.0 ** -np.arange(10, 24), [0.0, 1e-6]]).astype("float32")
    (actual,) = onnx_results(ops.erfinv, [x], tmp_path)
    truth = np.array([NormalDist().inv_cdf((v + 1) / 2) / np.sqrt(2) for v in x.tolist()])
    slope = np.sqrt(np.pi) / 2 * np.exp(truth**2)
    # Half an ulp of q <= 1, twice; Giles' polynomials are right to some 3 ulp, a logarithm and a root to as many.
    np.testing.assert_array_less(np.abs(actual - truth), 2 * EPSILON * slope + 8 * EPSILON * np.abs(truth))


def test_the_inverse_of_erf_ends_as_in_keras(tmp_path: Path) -> None:
    assert_agrees(ops.erfinv, [np.array([-1.0, 1.0, -1.5, 2.0, np.nan], "float32")], tmp_path)


def test_the_bessel_function_is_right_on_both_sides_of_where_its_series_meet(tmp_path: Path) -> None:
    x = np.concatenate([np.linspace(-20, 20, 401), [7.9999995, 8.000001, 50.0, 88.0, 1e-30]]).astype("float32")
    # A Clenshaw sum loses some 6 ulp of a value between the series' terms, the exponential up to 2.
    assert_agrees(ops.i0, [x], tmp_path, [np.i0(x.astype("float64"))], rtol=10 * EPSILON)
