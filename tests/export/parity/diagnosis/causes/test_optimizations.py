"""If levels of ONNX Runtime differ, the harmful optimization is named, and each level is reported."""

import keras
import pytest

from keras_pe.export import check_parity, export_onnx
from tests.export.runtimes.misoptimizing import FUSION, RULE, misoptimizing, wrong_when_long
from tests.export.runtimes.optimized_model import optimized_model


@pytest.mark.slow
@pytest.mark.parametrize("fault", [FUSION, RULE])  # a process for each rule
def test_the_optimization_that_makes_two_levels_differ_is_named(fault, tmp_path):
    model, path = optimized_model(tmp_path)
    report = check_parity(model, path, runtimes=["onnxruntime[disabled]", misoptimizing(fault)])
    assert [result.passed for result in report.results] == [True, False]
    (finding,) = report.findings
    assert finding.cause == "graph optimization"
    assert repr(fault) in finding.evidence
    assert "onnxruntime[disabled]" in str(report)
    assert "onnxruntime[faulty] on model.onnx: FAILED" in str(report)


@pytest.mark.slow
def test_a_file_that_is_right_inside_is_not_blamed_for_what_a_runtime_makes_of_long_inputs(tmp_path):
    model = keras.Sequential([keras.Input((None, 4)), keras.layers.Conv1D(5, 3, padding="same")])
    artifact = export_onnx(model, tmp_path / "model.onnx")
    report = check_parity(model, artifact, runtimes=[wrong_when_long()])
    assert not report.passed
    assert [finding.cause for finding in report.findings] == ["graph optimization"]
