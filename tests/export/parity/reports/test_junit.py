"""JUnit XML: read back by a parser, it fails exactly where the check does."""

import dataclasses

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from keras_pe.export.parity.presentation.report_content import name_matches
from keras_pe.export.results import NameMatch
from tests.export.parity.presentation.samples import ALL, ARTIFACT, FAILING, PASSING


@pytest.mark.parametrize("name", ALL)
def test_it_fails_exactly_where_the_check_has_not_passed(name):
    document = JUnitXml.fromstring(ALL[name].render("junit").encode())
    wrong = [r for suite in document for test in suite for r in test.result if isinstance(r, Failure | Error)]
    assert bool(wrong) is not ALL[name].passed
    assert document.failures + document.errors == len(wrong)


def test_there_is_a_suite_for_each_runtime_and_a_test_for_each_case():
    document = JUnitXml.fromstring(PASSING.render("junit").encode())
    assert [suite.name for suite in document] == [
        "onnxruntime[all] /models/encoder.onnx",
        "litert /models/encoder.onnx",
    ]
    for suite in document:
        assert [test.name for test in suite] == ["fair", "empty"]
        assert suite.time == 0.25
        assert [type(result) for test in suite for result in test.result] == [Skipped]


def test_a_failure_says_how_far_out_it_is_and_why():
    document = JUnitXml.fromstring(FAILING.render("junit").encode())
    first = next(iter(next(iter(document))))
    (failure,) = first.result
    assert failure.type == "wrong layout"
    assert "max |difference| 5.0e-01" in failure.message
    assert "cause: wrong layout in layer" in failure.text
    crashed = [test for suite in document for test in suite if isinstance(next(iter(test.result), None), Error)]
    assert [test.name for test in crashed] == ["crashed"]


@pytest.mark.parametrize("report", [PASSING, FAILING], ids=["passed", "failed"])
def test_names_that_were_matched_are_said_whether_it_passed_or_not(report):
    names = (NameMatch("input", "x", "args_0", by_order=False), NameMatch("output", "encoding", "Identity", True))
    first = dataclasses.replace(report.results[0], names=names)
    sentence = name_matches(ARTIFACT, first.names)
    report = dataclasses.replace(report, results=(first, *report.results[1:]))
    document = JUnitXml.fromstring(report.render("junit").encode())
    said = [{each.name: each.value for each in suite.properties()} for suite in document]
    assert said == [{"names": sentence}] + [{}] * (len(said) - 1)
    assert "output 'encoding' is 'Identity'. " in sentence
    failures = [r.text for test in next(iter(document)) for r in test.result if isinstance(r, Failure)]
    assert bool(failures) is not report.passed
    assert all(sentence in text for text in failures)
