"""The file of a decoder with a planted fault has that fault as its cause, and a sound file passes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.results import Cause
from tests.export.decoders.faulty_decoders import FAULTS, LAST_ROW, EditedGraph
from tests.export.decoders.small_decoders import language_model

_BEYOND = 1e5  # float16 ends at 65,504


def large_values(family: str) -> Any:
    """Returns the model of a family. If its values have a bias, one channel of them exceeds the range of float16."""
    model = language_model(family)
    for weight in model.weights:
        if weight.path.endswith("value/bias"):
            weight.assign(np.zeros(weight.shape) + _BEYOND * (np.arange(weight.shape[-1]) == 0))
    return model


@pytest.mark.slow_rows(1)  # test_caches has the same causes in this process
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_file_of_a_decoder_has_its_cause(fault: str, tmp_path: Path) -> None:
    family, cause, change = FAULTS[fault]
    is_large = fault == "16-bit cache beyond its range"
    model = large_values(family) if is_large else language_model(family)
    export_onnx(model, tmp_path / "sound.onnx", state="cache")
    graph = EditedGraph(tmp_path / "sound.onnx")
    change(graph)
    graph.save(tmp_path / "faulty.onnx")
    (result,) = check_parity(model, tmp_path / "faulty.onnx", runtimes="onnxruntime[all]").results
    assert not result.passed
    assert {finding.cause for finding in result.findings} == {cause}, str(result.findings)
    if fault == "table clamped":
        assert str(LAST_ROW) in result.findings[0].evidence
        (layer,) = (each.layer for each in result.layers if each.originates_here)
        assert layer.endswith("/position_embedding")
    if is_large:
        assert {finding.output for finding in result.findings} >= {"present.0.value", "present.1.value"}
        assert "infinite" in result.findings[0].evidence + result.findings[-1].evidence


SOUND: list[tuple[str, dict[str, Any]]] = [
    ("GPT2", {"state": "cache"}),
    ("GPT2", {"state": "shared_cache", "opset_version": 24}),
    ("Llama", {"state": "cache"}),
    ("Llama", {"state": "shared_cache", "opset_version": 24}),
    ("Llama", {"state": "cache", "half_precision": True}),
    ("Mistral", {"state": "cache"}),
    ("Gemma 2", {"state": "cache"}),
    ("GPTNeoX", {"state": "shared_cache", "opset_version": 24}),
    ("Bloom", {"state": "cache"}),
    ("Phi3, su", {"state": "cache"}),
]


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize(("family", "options"), SOUND)
def test_a_sound_decoder_has_no_cause(family: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = language_model(family)
    artifact = export_onnx(model, tmp_path / "decoder.onnx", **options)
    precision = "float16" if options.get("half_precision") else None
    report = check_parity(model, artifact, runtimes="onnxruntime[all]", precision=precision)
    assert report.passed, str(report)
    # A file in float16 differs by its dtype and its rounding, which the check accepts.
    of_float16 = {Cause.OTHER_DTYPE, Cause.ROUNDED_VALUES}
    accepted = of_float16 if precision else set[Cause]()
    assert {finding.cause for finding in report.findings} <= accepted
