from pathlib import Path
from statistics import NormalDist

import numpy as np
from keras import ops

from tests.export.onnx.exported import keras_results, onnx_results

EPSILON = float(np.finfo("float32").eps)


def test_the_inverse_of_erf_is_right_to_the_rounding_of_its_argument(tmp_path: Path) -> None:
    x = np.concatenate([np.linspace(-0.999, 0.999, 201), 1 - 2.0 ** -np.arange(10, 24), [0.0, 1e-6]]).astype("float32")
    (actual,) = onnx_results(ops.erfinv, [x], tmp_path)
    truth = np.array([NormalDist().inv_cdf((v + 1) / 2) / np.sqrt(2) for v in x.tolist()])
    slope = np.sqrt(np.pi) / 2 * np.exp(truth**2)
    # Half an ulp of q <= 1, twice; Giles' polynomials are right to some 3 ulp, a logarithm and a root to as many.
    np.testing.assert_array_less(np.abs(actual - truth), 2 * EPSILON * slope + 8 * EPSILON * np.abs(truth))


def test_the_inverse_of_erf_ends_as_in_keras(tmp_path: Path) -> None:
    x = np.array([-1.0, 1.0, -1.5, 2.0, np.nan], "float32")
    (truth,), (actual,) = keras_results(ops.erfinv, [x]), onnx_results(ops.erfinv, [x], tmp_path)
    np.testing.assert_array_equal(actual, truth)


def test_the_bessel_function_is_right_on_both_sides_of_where_its_series_meet(tmp_path: Path) -> None:
    x = np.concatenate([np.linspace(-20, 20, 401), [7.9999995, 8.000001, 50.0, 88.0, 1e-30]]).astype("float32")
    (actual,) = onnx_results(ops.i0, [x], tmp_path)
    # A Clenshaw sum loses some 6 ulp of a value between the series' terms, the exponential up to 2.
    np.testing.assert_allclose(actual, np.i0(x.astype("float64")), rtol=10 * EPSILON)
