"""A fault inside a custom layer is named with the operation and its line in the user's file."""

from pathlib import Path

import pytest

from keras_pe.export import check_parity
from tests.export.parity.diagnosis.planted import AMPLE
from tests.export.parity.diagnosis.user_faults import CODE_FAULTS, CodeFault

pytestmark = [pytest.mark.slow, pytest.mark.slow_rows(8)]

_BETWEEN = {("detector.py", "tf_saved_model")}  # some faults of this file lie between two operations
_RUNTIMES = {"onnx": "onnxruntime[disabled]", "tf_saved_model": "tensorflow", "litert": "litert"}


@pytest.mark.parametrize("form", _RUNTIMES)
@pytest.mark.parametrize("fault", CODE_FAULTS, ids=str)
def test_line_of_operation_is_named_alone(fault: CodeFault, form: str, tmp_path: Path) -> None:
    model, path = fault.plant(form, tmp_path)
    (result,) = check_parity(model, path, runtimes=_RUNTIMES[form], diagnosis_seconds=AMPLE).results
    placed = [finding for finding in result.findings if finding.file is not None]
    lines = {finding.line for finding in placed if finding.line is not None}
    # LiteRT's converter folds constants into weights.
    assert lines or form == "litert" or (fault.file, form) in _BETWEEN
    assert {Path(finding.file).name for finding in placed} <= {fault.file}
    assert lines <= fault.lines
    assert all(finding.operation for finding in placed if finding.line is not None)
