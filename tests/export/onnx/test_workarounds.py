from pathlib import Path

import numpy as np
import pytest
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import onnx_results


def test_a_refusal_says_what_to_do_instead(tmp_path: Path) -> None:
    with pytest.raises(
        ExportError, match=r"operator 'Svd' .* has no ONNX form\. ONNX has no decompositions: decompose"
    ):
        onnx_results(ops.svd, [np.zeros((4, 3, 3), "float32")], tmp_path)
