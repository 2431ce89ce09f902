from pathlib import Path

import numpy as np
import pytest
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import keras_results, onnx_results

IDS = np.array([0, 0, 1, 3, -1, 3], "int32")  # nothing in 2 and 4, and one that is dropped
FUNCTIONS = [ops.segment_sum, ops.segment_prod, ops.segment_max, ops.segment_min]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_empty_and_negative_segments_are_as_in_keras(function, dtype: str, tmp_path: Path) -> None:
    data = np.array([[1, -2], [3, 4], [5, -6], [7, 8], [9, 10], [-3, 2]], dtype)

    def call(x, ids):
        return function(x, ids, num_segments=5)

    (actual,), (truth,) = onnx_results(call, [data, IDS], tmp_path), keras_results(call, [data, IDS])
    np.testing.assert_array_equal(actual, truth, strict=True)


def test_the_extremes_are_refused_where_onnx_cannot_scatter_them(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="UnsortedSegmentMax needs opset 18"):
        onnx_results(
            lambda x, ids: ops.segment_max(x, ids, 5), [np.ones((6, 2), "float32"), IDS], tmp_path, opset_version=15
        )
