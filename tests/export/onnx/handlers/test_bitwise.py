from pathlib import Path

import numpy as np
import pytest
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import exported_together, onnx_results

EDGES = np.array([[0.0, -0.0, 1.0], [-0.0, 0.0, -1.0], [-np.inf, np.inf, 3e38], [-3e38, 1e-37, -1e-37]], "float32")


@pytest.mark.parametrize("opset", [15, 18])
def test_signbit_sees_the_sign_of_zero(opset: int, tmp_path: Path) -> None:
    (actual,) = onnx_results(ops.signbit, [EDGES], tmp_path, opset_version=opset)
    np.testing.assert_array_equal(actual, np.signbit(EDGES))


@pytest.mark.parametrize("opset", [15, 18])
def test_the_float_extremes_are_where_keras_finds_them(opset: int, tmp_path: Path) -> None:
    calls = {"largest": lambda x: ops.argmax(x, axis=-1), "smallest": lambda x: ops.argmin(x, axis=-1)}
    for name, actual, truth in exported_together(calls, [EDGES], tmp_path, opset_version=opset):
        np.testing.assert_array_equal(actual, truth, strict=True, err_msg=name)


def test_other_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="The bits of a number have no ONNX form"):
        onnx_results(lambda x: ops.view(x, "int32"), [EDGES], tmp_path)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_right_shift_keeps_the_sign(dtype: str, tmp_path: Path) -> None:
    limits = np.iinfo(dtype)
    inputs = [np.array([-7, 7, limits.min, limits.max, -1], dtype), np.array([1, 2, 4, 8, 3], dtype)]
    (actual,) = onnx_results(ops.right_shift, inputs, tmp_path)
    np.testing.assert_array_equal(actual, inputs[0] >> inputs[1], strict=True)
