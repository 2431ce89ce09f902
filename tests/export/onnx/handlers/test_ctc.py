from pathlib import Path

import numpy as np
import pytest
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import onnx_results


def test_a_blank_that_tf2onnx_ignores_is_refused(tmp_path: Path) -> None:
    scores, lengths = np.zeros((2, 5, 4), "float32"), np.array([5, 3], "int32")
    with pytest.raises(ExportError, match="blank that is not the last class"):
        onnx_results(lambda x, n: ops.ctc_decode(x, n, mask_index=0), [scores, lengths], tmp_path)
