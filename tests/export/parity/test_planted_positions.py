"""Changed rotary positions and relative biases are found in files of any exporter."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from keras_pe.export import check_parity, export_litert, export_onnx
from tests.export.parity.diagnosis.planted import AMPLE
from tests.export.parity.planted_positions import FAULTS, attention
from tests.samples import sample_cases

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def torch_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, its file, and a file of each fault."""
    for module in ("torch", "onnxscript"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("torch")
    command = [sys.executable, "-m", "tests.export.parity.planted_positions", str(folder)]
    done = subprocess.run(
        command, env={**os.environ, "KERAS_BACKEND": "torch"}, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def _check(model: keras.Model, path: Path, runtime: str, fault: str) -> None:
    report = check_parity(model, path, runtimes=[runtime], diagnosis_seconds=AMPLE)
    _, layer, cause, said = FAULTS[fault]
    assert not report.passed
    assert {(finding.cause, finding.layer) for finding in report.findings} == {(cause, layer)}, str(report)
    assert said in report.findings[0].evidence


@pytest.mark.parametrize("fault", sample_cases(FAULTS, ("layout", "bucket")))
def test_a_fault_of_positions_in_an_onnx_file_is_named_with_the_layer(fault: str, tmp_path: Path) -> None:
    path = export_onnx(FAULTS[fault][0](), tmp_path / "faulty.onnx").path
    _check(attention(), path, "onnxruntime[all]", fault)


@pytest.mark.parametrize("fault", sample_cases(FAULTS, ("rates",)))
def test_a_fault_of_positions_in_a_litert_file_is_named_with_the_layer(fault: str, tmp_path: Path) -> None:
    path = export_litert(FAULTS[fault][0](), tmp_path / "faulty.tflite").path
    _check(attention(), path, "litert", fault)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_positions_in_a_file_of_pytorch_is_named_with_the_layer(fault: str, torch_file: Path) -> None:
    model = keras.models.load_model(torch_file / "model.keras")
    _check(model, torch_file / f"{fault}.onnx", "onnxruntime[all]", fault)


@pytest.mark.exhaustive
def test_the_file_of_pytorchs_exporter_passes_without_a_fault(torch_file: Path) -> None:
    model = keras.models.load_model(torch_file / "model.keras")
    report = check_parity(model, torch_file / "sound.onnx", runtimes=["onnxruntime[all]"])
    assert report.passed, str(report)
