from pathlib import Path

import numpy as np
from keras import ops

from tests.export.onnx.exported import onnx_results


def test_every_pair_of_signs_zeros_and_infinities_has_numpys_angle(tmp_path: Path) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, 1e-30, -1e30, np.inf, -np.inf, np.nan], "float32")
    y, x = (side.ravel() for side in np.meshgrid(values, values))
    (actual,) = onnx_results(ops.arctan2, [y, x], tmp_path)
    # A division, an arctangent to 2 ulp and a subtraction from pi.
    np.testing.assert_allclose(actual, np.arctan2(y, x), rtol=4 * np.finfo("float32").eps)
