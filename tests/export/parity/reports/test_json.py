"""JSON: what is written keeps the published schema, and the schema says all there is."""

import copy
import dataclasses
import hashlib
import json

import jsonschema
import pytest

from keras_pe.export import results as records
from keras_pe.export.parity.parity_report import ParityReport
from tests.export.parity.presentation.samples import ALL, FAILING


@pytest.mark.parametrize("name", ALL)
def test_every_report_keeps_the_schema_and_holds_no_number_that_json_lacks(name):
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(ALL[name].render("json"), parse_constant=refuse)
    jsonschema.Draft202012Validator(ParityReport.json_schema()).validate(content)
    assert content["passed"] is ALL[name].passed


def test_the_schema_is_valid_and_refuses_what_is_not_a_report():
    jsonschema.Draft202012Validator.check_schema(ParityReport.json_schema())
    validator = jsonschema.Draft202012Validator(ParityReport.json_schema())
    content = json.loads(FAILING.render("json"))
    for break_it in (
        lambda c: c.pop("passed"),
        lambda c: c["results"][0].update(status="fine"),
        lambda c: c["results"][0]["cases"][0]["comparisons"][0].update(max_abs_diff="big"),
        lambda c: c["results"][0]["profile"].update(extra=1),
    ):
        broken = copy.deepcopy(content)
        break_it(broken)
        assert not validator.is_valid(broken)


def test_the_schema_names_every_field_of_every_record_and_no_other():
    found = ParityReport.json_schema()
    assert set(found["properties"]) == {
        "$schema",
        "schema_version",
        "passed",
        "compared",
        *_fields(records.CheckResults),
    }
    described = {name for name in found["$defs"] if name not in ("figure", "value")}
    existing = {name for name, value in vars(records).items() if dataclasses.is_dataclass(value)}
    assert described == existing - {"AnyResults", "CheckResults", "Chunks", "LayerRecording", "Recording"}
    for name in described:
        assert set(found["$defs"][name]["properties"]) == _fields(getattr(records, name))
        assert set(found["$defs"][name]["required"]) == _fields(getattr(records, name))


def _fields(record: type) -> set[str]:
    return {field.name for field in dataclasses.fields(record)} - {"recording"}


def test_the_schema_says_its_version_and_a_change_of_its_words_is_noticed():
    """The names are a promise: where this fails, raise SCHEMA_VERSION, or leave the name as it was."""
    assert (
        json.loads(FAILING.render("json"))["schema_version"]
        == ParityReport.published.version
        == ParityReport.json_schema()["properties"]["schema_version"]["const"]
    )
    schema = ParityReport.json_schema()
    found = {
        name: sorted(part["properties"]) for name, part in schema["$defs"].items() if name not in ("figure", "value")
    }
    found["report"] = sorted(ParityReport.json_schema()["properties"])
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    assert digest[:16] == "891952f50fd2784c"
