"""JSON: what is written keeps the published schema, and the schema says all there is."""

import copy
import dataclasses
import hashlib
import json

import jsonschema
import pytest

from keras_pe.export import results as records
from keras_pe.export.parity.reports.json import SCHEMA_VERSION, render, schema
from tests.export.parity.reports.samples import ALL, FAILING


@pytest.mark.parametrize("name", ALL)
def test_every_report_keeps_the_schema_and_holds_no_number_that_json_lacks(name):
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(render(ALL[name]), parse_constant=refuse)
    jsonschema.Draft202012Validator(schema()).validate(content)
    assert content["passed"] is ALL[name].passed


def test_the_schema_is_valid_and_refuses_what_is_not_a_report():
    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())
    content = json.loads(render(FAILING))
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
    found = schema()
    assert set(found["properties"]) == {
        "$schema",
        "schema_version",
        "passed",
        "compared",
        *_fields(records.ParityReport),
    }
    described = {name for name in found["$defs"] if name != "figure"}
    existing = {name for name, value in vars(records).items() if dataclasses.is_dataclass(value)}
    assert described == existing - {"ParityReport", "Recording"}
    for name in described:
        assert set(found["$defs"][name]["properties"]) == _fields(getattr(records, name))
        assert set(found["$defs"][name]["required"]) == _fields(getattr(records, name))


def _fields(record: type) -> set[str]:
    return {field.name for field in dataclasses.fields(record)} - {"recording"}


def test_the_schema_says_its_version_and_a_change_of_its_words_is_noticed():
    """The names are a promise: where this fails, raise SCHEMA_VERSION, or leave the name as it was."""
    assert (
        json.loads(render(FAILING))["schema_version"]
        == SCHEMA_VERSION
        == schema()["properties"]["schema_version"]["const"]
    )
    found = {name: sorted(part["properties"]) for name, part in schema()["$defs"].items() if name != "figure"}
    found["report"] = sorted(schema()["properties"])
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    assert digest[:16] == "7c8af33f34398034"
