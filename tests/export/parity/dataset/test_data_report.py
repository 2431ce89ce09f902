"""The report of a data set as text, JSON and pages."""

import dataclasses
import re

import numpy as np
import pytest

from keras_pe.export.parity.dataset.data_report import describe_row
from keras_pe.export.parity.reports.document import Statement
from keras_pe.export.parity.statistics.confidence import rate
from keras_pe.export.parity.statistics.runtime_statistics import OutputStatistics, RuntimeStatistics
from keras_pe.export.results import SkippedRuntime
from tests.export.parity.dataset.samples import ALL, FAILING, PASSING
from tests.export.parity.presentation.samples import PASSING as CASES
from tests.export.parity.reports.pages import assert_colors_come_from_the_page


@pytest.mark.parametrize("name", ALL)
def test_the_pictures_take_every_color_from_the_page(name: str) -> None:
    assert_colors_come_from_the_page(ALL[name].render("html"))


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_loaded_and_nothing_of_the_template_is_left(name: str) -> None:
    page = ALL[name].render("html")
    assert re.findall(r"<(?:script|link|img|iframe)\b|@import|url\((?!#)|{{|{%", page) == []
    verdict = "passed" if ALL[name].passed else "FAILED"
    assert f": {verdict}</title>" in page


def test_artifacts_of_one_name_are_told_by_their_folders() -> None:
    first, *_ = PASSING.results
    results = tuple(dataclasses.replace(first, artifact=f"/a/{folder}/model.onnx") for folder in ("fp32", "int8"))
    titles = [part.title for part in dataclasses.replace(PASSING, results=results).document().parts]
    assert titles == [f"{first.runtime} on {folder}/model.onnx" for folder in ("fp32", "int8")]


def test_the_report_of_a_long_row_prints_the_values_that_differ() -> None:
    row = FAILING.results[0].statistics.worst[1]
    expected = np.zeros(514, np.float32)
    actual = expected.copy()
    actual[300] = 0.25
    said = describe_row(dataclasses.replace(row, expected={"p": expected}, actual={"p": actual}))
    assert "p [..., 0, 0, 0, 0, 0, 0, ...] -> [..., 0, 0, 0, 0.25, 0, 0, ...]" in said


def test_a_rate_is_a_count_in_a_round_number_rounded_up() -> None:
    assert [rate(value) for value in (0.5, 2.996e-3, 3e-6)] == ["50 in a hundred", "30 in 10,000", "3 in a million"]
    assert [rate(value) for value in (0.00994, 0.0099)] == ["1 in a hundred", "99 in 10,000"]


def test_a_report_in_which_every_row_fails_states_no_bound() -> None:
    result = PASSING.results[0]
    every = dataclasses.replace(result.statistics, failed=result.statistics.rows)
    assert "100 in a hundred" not in dataclasses.replace(result, statistics=every).verdict
    report = dataclasses.replace(PASSING, results=(dataclasses.replace(result, statistics=every),))
    assert "hundred" not in str(report)


def test_the_summary_says_in_one_sentence_how_sure_one_can_be_and_the_overview_has_a_row_a_runtime() -> None:
    found = PASSING.document()
    assert "fewer than 46 in a hundred" in found.summary[1]
    assert [row[0] for row in found.overview.rows] == [result.runtime for result in PASSING.results]


def test_how_sure_one_can_be_of_a_failure_is_said_once() -> None:
    result = FAILING.results[0]
    many = dataclasses.replace(result, statistics=dataclasses.replace(result.statistics, rows=1000))
    assert many.upper_bound_95 < 0.5
    assert str(dataclasses.replace(FAILING, results=(many,))).count("95 %") == 1


def test_rows_without_an_answer_are_counted_as_such_and_their_reason_is_said_once() -> None:
    reason = "InvalidArgument: idx=850 is out of bounds"
    row = dataclasses.replace(FAILING.results[0].statistics.worst[0], message=reason)
    none = dataclasses.replace(PASSING.results[0].outputs[0], statistics=OutputStatistics())
    counts = RuntimeStatistics(3, failed=3, unanswered=3, problems={reason: 0}, worst=(row, row))
    result = dataclasses.replace(PASSING.results[0], statistics=counts, outputs=(none,))
    report = dataclasses.replace(PASSING, results=(result,))
    assert result.verdict.startswith("3 rows: 0 decisions changed, 3 without an answer; with 95 %")
    assert str(report).count("idx=850") == 1
    assert [str(cell) for cell in report.document().overview.rows[0][-3:]] == ["-", "-", "-"]


def test_errors_of_single_rows_have_their_unit() -> None:
    (table,) = (each for each in FAILING.document().parts[0].tables if each.title == "Worst rows")
    assert "error / allowed" in table.header


def test_several_artifacts_go_down_and_runtimes_across_as_in_a_check_by_cases() -> None:
    one, runtimes = PASSING.results[0], ("onnxruntime[all]", "openvino")
    results = [
        dataclasses.replace(one, artifact=path, runtime=runtime)
        for path in ("/models/a.onnx", "/models/b.onnx")
        for runtime in runtimes
    ]
    (table,) = dataclasses.replace(PASSING, results=tuple(results)).document().tables
    assert table.header == ("artifact", *runtimes)
    assert [str(row[0]) for row in table.rows] == ["a.onnx", "b.onnx"]
    assert str(table.rows[0][1]).startswith("passed ")


def test_both_checks_report_alike_that_nothing_was_compared() -> None:
    said = [each.text for each in dataclasses.replace(PASSING, results=()).document().remarks]
    assert said == [
        each.text for each in dataclasses.replace(CASES, results=(), skipped=(), cases=()).document().remarks
    ]


def test_a_missing_package_is_reported_as_in_a_check_by_cases() -> None:
    missing = (SkippedRuntime("litert", "/models/encoder.tflite", "pip install 'keras-pe[litert]'"),)
    rows, cases = (dataclasses.replace(each, skipped=missing).document() for each in (PASSING, CASES))
    said = [[each for each in found.remarks if each.label == "skipped"] for found in (rows, cases)]
    assert said[0] == said[1] == [Statement("skipped", "litert. Install it with: pip install 'keras-pe[litert]'")]
    assert rows.suites[-1].verdicts == cases.suites[-1].verdicts
