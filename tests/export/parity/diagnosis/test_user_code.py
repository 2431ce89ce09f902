"""A fault inside a custom layer is named with the operation and its line in the user's file."""

from pathlib import Path

import pytest

from benchmarks.diagnosis import judge
from benchmarks.measurement_files import load_rows
from keras_pe.export import check_parity
from tests.export.parity.diagnosis.planted import AMPLE
from tests.export.parity.diagnosis.user_faults import CODE_FAULTS, CodeFault

pytestmark = [pytest.mark.slow, pytest.mark.slow_rows(4)]

_RUNTIMES = {"onnx": "onnxruntime[disabled]", "tf_saved_model": "tensorflow", "litert": "litert"}
_STORED = load_rows("diagnosis")


@pytest.mark.parametrize("form", _RUNTIMES)
@pytest.mark.parametrize("fault", CODE_FAULTS, ids=str)
def test_line_of_operation_is_named_alone(fault: CodeFault, form: str, tmp_path: Path) -> None:
    model, path = fault.plant(form, tmp_path)
    (result,) = check_parity(model, path, runtimes=_RUNTIMES[form], diagnosis_seconds=AMPLE).results
    found = [{**vars(each), "file": each.file and Path(each.file).name} for each in result.findings]
    verdict = judge((fault.file, sorted(fault.lines)), found)
    # The stored rows have the few faults whose line is not named: mostly operators that a converter folds into weights.
    assert verdict in ("hit", _STORED[f"user's code, {form} / {fault}"]["verdict"])
    assert verdict != "wrong"
    assert all(each.operation for each in result.findings if each.line is not None)
