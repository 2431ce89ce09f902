"""A refusal reads as sentences."""

from keras_pe.export.errors import ExportError, joined


def test_each_reason_is_said_once_and_begins_as_a_sentence_but_for_the_first_after_the_colon() -> None:
    reasons = joined(["operator 'A' has no form.", "operator 'B' has no form.", "operator 'A' has no form."])
    assert str(ExportError("ONNX", "net", reasons)) == (
        "ONNX export of 'net' stopped: operator 'A' has no form. Operator 'B' has no form. Nothing was written."
    )
