"""A reference that refuses every case compares nothing, which fails, and makes no argument wrong."""

from pathlib import Path

import numpy as np

from keras_pe.export import check_parity
from tests.cli.test_check_data import write_model


def test_a_tolerance_of_an_output_is_no_error_where_every_case_is_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx", None)
    wrong = {"x": np.ones((3, 5), np.float32)}
    report = check_parity(model, model, inputs=wrong, atol={"p": 0.1}, runtimes="onnxruntime[all]")
    assert not report.passed
    assert report.cases[0].error is not None
