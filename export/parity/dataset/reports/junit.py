"""The report of a data set as JUnit XML: a suite for each runtime and artifact, a test for its rows."""

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from keras_pe.export.parity.dataset.reports import text
from keras_pe.export.parity.dataset.results import DatasetReport, DatasetResult
from keras_pe.export.parity.dataset.statistics.worst import Severity
from keras_pe.export.parity.reports.escaping import xml_text


def render(report: DatasetReport) -> str:
    """Returns the report; it has a failure or an error exactly where the check has not passed."""
    document = JUnitXml(xml_text(f"{report.data} through {report.model}"))
    for result in report.results:
        document.add_testsuite(_runtime(report, result))
    document.update_statistics()  # type: ignore[no-untyped-call]
    document.time = report.seconds
    return '<?xml version="1.0" encoding="utf-8"?>\n' + bytes(document.tostring()).decode()  # type: ignore[no-untyped-call]


def _runtime(report: DatasetReport, result: DatasetResult) -> TestSuite:
    name = f"{result.runtime} {result.artifact}"
    suite = TestSuite(xml_text(name))
    rows = f"{result.statistics.rows:,} rows of {report.data}"
    if result.message:
        suite.add_testcase(_test(name, "loads", Error(xml_text(result.message), "not loaded")))
    elif report.stopped_early:
        suite.add_testcase(_test(name, rows, Failure(xml_text(text.verdict(result)), "stopped early")))
    elif not result.passed:
        failure = Failure(xml_text(text.verdict(result)), "difference")
        worst = [row for row in result.statistics.worst if row.severity > Severity.AGREES]
        failure.text = xml_text("\n".join([*result.statistics.problems, *map(text.describe_row, worst)]))
        suite.add_testcase(_test(name, rows, failure))
    else:
        suite.add_testcase(_test(name, rows))
    return suite


def _test(suite: str, name: str, *outcome: Failure | Error) -> TestCase:
    found = TestCase(xml_text(name), classname=xml_text(suite))
    found.result = list(outcome)
    return found
