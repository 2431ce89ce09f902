"""A number that is rounded on its way stays rounded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import keras_results, onnx_results

X = np.array([1.0, 1 / 3, -2.7, 1e-8, 3e37, 70000.0], "float32")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32"])
def test_a_cast_to_fewer_digits_and_back_is_kept(dtype: str, tmp_path: Path) -> None:
    x = X[:3] if dtype == "int32" else X

    def call(x: Any) -> Any:
        return ops.cast(ops.cast(x, dtype), "float32") * 2

    (actual,) = onnx_results(call, [x], tmp_path)
    np.testing.assert_array_equal(actual, keras_results(call, [x])[0], strict=True)
    assert not np.array_equal(actual, 2 * x)
