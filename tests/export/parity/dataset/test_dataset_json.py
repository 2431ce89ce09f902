"""JSON of a data set: what is written keeps the published schema, and the schema says all there is."""

import copy
import dataclasses
import hashlib
import json
from typing import Any

import jsonschema
import pytest

from keras_pe.export.parity.dataset.data_report import DatasetReport
from keras_pe.export.parity.dataset.dataset_records import DatasetResults
from tests.export.parity.dataset.samples import ALL, FAILING


@pytest.mark.parametrize("name", ALL)
def test_every_report_keeps_the_schema_and_holds_no_number_that_json_lacks(name: str) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(ALL[name].render("json"), parse_constant=refuse)
    jsonschema.Draft202012Validator(DatasetReport.json_schema()).validate(content)
    assert content["passed"] is ALL[name].passed


def _extra(content: dict[str, Any]) -> dict[str, Any]:
    """Returns a record of each kind that the failing report holds, by its name in the schema."""
    result = content["results"][0]
    output = result["outputs"][0]
    return {
        "Allowance": content["allowance"],
        "DatasetResult": result,
        "StoredWeights": result["weights"],
        "Finding": result["findings"][0],
        "OtherValue": result["findings"][0]["parameters"][0],
        "NameMatch": result["names"][0],
        "RuntimeStatistics": result["statistics"],
        "SkippedRuntime": content["skipped"][0],
        "OutputSummary": output,
        "OutputStatistics": output["statistics"],
        "Histogram": output["statistics"]["errors"],
        "Bin": output["statistics"]["errors"]["bins"][0],
        "ChangedClass": output["statistics"]["changed_classes"][0],
        "WorstRow": result["statistics"]["worst"][0],
        "ParityReport": content["diagnosis"],
    }


KINDS = sorted(set(DatasetReport.json_schema()["$defs"]) - {"figure", "value"})


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_takes_every_record_with_all_its_fields_and_no_other(kind: str) -> None:
    validator = jsonschema.Draft202012Validator(DatasetReport.json_schema())
    content = json.loads(FAILING.render("json"))
    for name in [*_extra(content)[kind], "extra"]:
        broken = copy.deepcopy(content)
        record = _extra(broken)[kind]
        if name == "extra":
            record[name] = 1
        else:
            del record[name]
        assert not validator.is_valid(broken), name


def test_json_says_what_python_does_under_the_same_names() -> None:
    content = FAILING.to_dict()
    for field in dataclasses.fields(DatasetResults):
        assert field.name in content
    found, written = FAILING.results[0], content["results"][0]
    assert written["statistics"]["failed"] == found.statistics.failed
    assert written["statistics"]["worst"][0]["severity"] == "no_answer"
    assert written["outputs"][0]["quantiles"] == found.outputs[0].quantiles


def test_the_schema_is_valid_and_refuses_values_of_another_kind() -> None:
    jsonschema.Draft202012Validator.check_schema(DatasetReport.json_schema())
    validator = jsonschema.Draft202012Validator(DatasetReport.json_schema())
    content = json.loads(FAILING.render("json"))
    for kind, change in (
        ("RuntimeStatistics", {"failed": -1}),
        ("OutputStatistics", {"max_abs_diff": "big"}),
        ("WorstRow", {"severity": "bad"}),
        ("ParityReport", {"passed": "no"}),
    ):
        broken = copy.deepcopy(content)
        _extra(broken)[kind].update(change)
        assert not validator.is_valid(broken), change


def test_the_schema_says_its_version_and_a_change_of_its_words_is_noticed() -> None:
    """The names are a promise: where this fails, raise SCHEMA_VERSION, or leave the name as it was."""
    found = DatasetReport.json_schema()
    assert (
        json.loads(FAILING.render("json"))["schema_version"]
        == DatasetReport.published.version
        == found["properties"]["schema_version"]["const"]
    )
    assert found["$id"].endswith(f":{DatasetReport.published.version}")
    words = {name: sorted(found["$defs"][name]["properties"]) for name in KINDS if name != "ParityReport"}
    words["report"] = sorted(found["properties"])
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()
    assert digest[:16] == "ca9672332fd89c73"
