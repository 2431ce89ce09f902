"""ONNX Runtime takes and returns types that NumPy lacks."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

from keras_pe.export import check_parity
from keras_pe.export.runtimes.onnxruntime import OnnxRuntime


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("taken", ["bfloat16", "float"])
@pytest.mark.parametrize("returned", ["bfloat16", "float"])
def test_bfloat16_goes_in_and_out(taken: str, returned: str, tmp_path: Path) -> None:
    number = {"float": 1, "bfloat16": 16}[returned]
    text = f"""<ir_version: 9, opset_import: ["": 18]>
        g ({taken}[batch, 4] x) => ({returned}[batch, 4] y, float[batch, 4] z) {{
            wide = Cast<to = 1>(x)
            z = Relu(wide)
            y = Cast<to = {number}>(z) }}"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    dtypes = {"float": np.dtype("float32"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(dtypes[taken])
    found = OnnxRuntime(str(path)).run({"x": x})
    assert {name: array.dtype for name, array in found.items()} == {"y": dtypes[returned], "z": np.float32}
    wide = np.maximum(x.astype("float32"), 0)
    np.testing.assert_array_equal(found["z"], wide)
    np.testing.assert_array_equal(found["y"], wide.astype(dtypes[returned]))
    assert check_parity(path, path, runtimes="onnxruntime[all]").passed
