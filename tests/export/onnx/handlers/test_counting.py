from pathlib import Path

import numpy as np
import pytest
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import keras_results, onnx_results

VALUES = np.array([[3, 0, 3, 5], [2, 2, 2, 1], [9, 1, 0, 0]], "int32")  # 9 is beyond the last bin
WEIGHTS = np.array([0.5, 1.5, 2.0, 4.0], "float32")


@pytest.mark.parametrize("values", [VALUES, VALUES[0]])
def test_values_are_counted_as_often_as_they_come(values: np.ndarray, tmp_path: Path) -> None:
    def call(x):
        return ops.bincount(x, minlength=10)

    (actual,), (truth,) = onnx_results(call, [values], tmp_path), keras_results(call, [values])
    np.testing.assert_array_equal(actual, truth, strict=True)


def test_weights_are_added(tmp_path: Path) -> None:
    def call(x, w):
        return ops.bincount(x, weights=w, minlength=6)

    (actual,) = onnx_results(call, [VALUES[0], WEIGHTS], tmp_path)
    np.testing.assert_array_equal(actual, np.bincount(VALUES[0], WEIGHTS, 6).astype("float32"), strict=True)


def test_counting_is_refused_where_onnx_cannot_scatter_sums(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="needs opset 16"):
        onnx_results(lambda x: ops.bincount(x, minlength=6), [VALUES], tmp_path, opset_version=15)


def test_values_scattered_to_one_index_are_added(tmp_path: Path) -> None:
    def call(i, v):
        return ops.scatter(i, v, (4, 2))

    inputs = [np.array([[1], [3], [1]], "int32"), np.array([[1, 2], [3, 4], [5, 6]], "float32")]
    (actual,) = onnx_results(call, inputs, tmp_path)
    np.testing.assert_array_equal(actual, [[0, 0], [6, 8], [0, 0], [3, 4]])
