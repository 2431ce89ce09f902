import math
from pathlib import Path

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import onnx_results

EPSILON = float(np.finfo("float32").eps)
# Both sides of zero at every scale at which float32 has digits, and what has no digits left.
SMALL = np.concatenate([sign * np.float32(2.0) ** np.arange(-120, 3, dtype="float32") for sign in (-1, 1)])
EDGES = np.array([0.0, np.inf, np.nan], "float32")


@pytest.mark.parametrize(
    ("function", "exact", "extremes"),
    [
        (ops.expm1, np.expm1, [-np.inf, -100.0, -20.0, 50.0, 88.0, 100.0]),
        (ops.log1p, np.log1p, [-2.0, -1.0, -0.9999, 1e10, 3e38]),
    ],
)
def test_every_digit_survives_near_zero(function, exact, extremes, tmp_path: Path) -> None:
    x = np.concatenate([SMALL[np.abs(SMALL) < 0.9], SMALL[SMALL > 0], EDGES, np.array(extremes, "float32")])
    with np.errstate(all="ignore"):
        truth = exact(x.astype("float64")).astype("float32")
    (actual,) = onnx_results(function, [x], tmp_path)
    # Five roundings, and up to 2 ulp each in the runtime's Exp, Log and Tanh.
    np.testing.assert_allclose(actual, truth, rtol=8 * EPSILON)


def test_erfc_is_right_to_the_rounding_of_one(tmp_path: Path) -> None:
    x = np.concatenate([np.linspace(-5, 5, 101, dtype="float32"), [-np.inf, np.inf]]).astype("float32")
    (actual,) = onnx_results(ops.erfc, [x], tmp_path)
    np.testing.assert_allclose(actual, [math.erfc(v) for v in x.tolist()], rtol=0, atol=4 * EPSILON)


def test_exact_gelu_converts(tmp_path: Path) -> None:
    x = np.linspace(-8, 8, 101, dtype="float32")
    (actual,) = onnx_results(lambda t: ops.gelu(t, approximate=False), [x], tmp_path)
    truth = [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    np.testing.assert_allclose(actual, truth, rtol=EPSILON, atol=0.5 * 8 * 4 * EPSILON)  # |x| / 2 times erfc's error


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_logarithm_keeps_its_precision(dtype: str, tmp_path: Path) -> None:
    x = np.linspace(0.1, 9, 101, dtype="float32")
    (actual,) = onnx_results(lambda t: ops.log(ops.cast(t, dtype)), [x], tmp_path)
    assert actual.dtype == dtype
    # Two ulp of a logarithm, which is below 4.
    np.testing.assert_allclose(actual, np.log(x.astype(dtype).astype("float64")), rtol=0, atol=8 * np.finfo(dtype).eps)
