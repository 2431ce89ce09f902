from pathlib import Path

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import keras_results, onnx_results


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize(("index", "dtype"), [("int32", "float32"), ("int64", "int32"), ("int32", "bool")])
def test_an_index_out_of_range_is_hot_nowhere(axis: int, index: str, dtype: str, tmp_path: Path) -> None:
    indices = np.array([[0, 2, -1], [5, 1, 3]], index)

    def call(x):
        return ops.one_hot(x, 4, axis=axis, dtype=dtype)

    np.testing.assert_array_equal(onnx_results(call, [indices], tmp_path), keras_results(call, [indices]), strict=True)
