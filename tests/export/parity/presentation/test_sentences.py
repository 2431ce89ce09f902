"""The sentences of a report: each appears once, ends once, and is in every form of the report."""

import dataclasses

from keras_pe.export import Cause
from keras_pe.export.errors import sentence
from keras_pe.export.parity.presentation.remedies import REMEDIES
from keras_pe.export.parity.presentation.sentences import Group, statements
from keras_pe.export.records import Finding, RuntimeResult
from keras_pe.export.results import RunStatus

ERROR = "INVALID_PROTOBUF: parsing failed."
DAMAGED = RuntimeResult("m.onnx", "onnx", "onnxruntime[all]", False, RunStatus.NOT_LOADED, ERROR)


def sentences_of(result: RuntimeResult) -> list[tuple[str, str]]:
    return [(each.label, each.text) for each in statements("net", Group((result,)))]


def test_an_error_that_is_the_evidence_of_a_cause_is_said_once() -> None:
    found = dataclasses.replace(DAMAGED, findings=(Finding(Cause.NOT_LOADED, sentence(ERROR)),))
    (cause, remedy) = sentences_of(found)
    assert cause == ("cause", f"not loaded. {ERROR}")
    assert remedy == ("what to do now", REMEDIES[Cause.NOT_LOADED])
    assert sentences_of(DAMAGED) == [("error", f"not loaded: {ERROR}")]


def test_a_remedy_has_no_signs_that_only_markdown_reads_and_one_full_stop() -> None:
    for remedy in REMEDIES.values():
        assert "`" not in remedy
        assert remedy.endswith(".")
        assert not remedy.endswith("..")
