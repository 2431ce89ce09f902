"""A report as JUnit XML: a suite for each runtime and artifact, a test for each case."""

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from keras_pe.export.parity.reports import text
from keras_pe.export.parity.reports.escaping import xml_text
from keras_pe.export.parity.reports.groups import Group
from keras_pe.export.results import CaseResult, ParityReport, RuntimeResult


def render(report: ParityReport) -> str:
    """Returns the report; it has a failure or an error exactly where the check has not passed."""
    document = JUnitXml(xml_text(f"parity of {report.model}"))
    for result in report.results:
        document.add_testsuite(_runtime(report, result))
    rest = TestSuite(xml_text(report.model))
    if not report.results:
        rest.add_testcase(_test("reference", "compared", Error("nothing was compared", "nothing compared")))
    for each in report.skipped:
        reason = Skipped(xml_text(f"not installed. Install it with: {each.install}"))
        rest.add_testcase(_test(each.artifact, each.runtime, reason))
    if len(rest):
        document.add_testsuite(rest)
    document.update_statistics()  # type: ignore[no-untyped-call]
    document.time = report.seconds
    for suite, result in zip(document, report.results, strict=False):  # the statistics have reset it
        suite.time = result.seconds
    return '<?xml version="1.0" encoding="utf-8"?>\n' + bytes(document.tostring()).decode()  # type: ignore[no-untyped-call]


def _runtime(report: ParityReport, result: RuntimeResult) -> TestSuite:
    name = f"{result.runtime} {result.artifact}".strip()
    suite = TestSuite(xml_text(name))
    if result.names:
        suite.add_property("names", xml_text(_naming(result)))
    for case in result.cases:
        suite.add_testcase(_case(report, result, case))
    if result.status != "compared":
        suite.add_testcase(_test(name, result.status, Error(xml_text(result.error), result.status)))
    elif not result.passed and all(case.status != "failed" for case in result.cases):
        suite.add_testcase(_test(name, "compared", Error("nothing was compared", "nothing compared")))
    return suite


def _case(report: ParityReport, result: RuntimeResult, case: CaseResult) -> TestCase:
    name = f"{result.runtime} {result.artifact}".strip()
    if case.status == "passed":
        return _test(name, case.name)
    if case.status == "skipped":
        return _test(name, case.name, Skipped("the reference refuses this case, and so does the runtime"))
    wrong = [each for each in case.comparisons if not each.passed]
    said = [text.describe(report.model, result.runtime, case.name, each) for each in wrong]
    said += [case.error] if case.error else []
    failure = Failure(xml_text(said[0]), result.findings[0].cause if result.findings else "difference")
    causes = [
        f"{label}: {sentence}" for label, sentence in text.statements(report, Group((result,))) if label != "worst"
    ]
    names = [_naming(result)] if result.names else []  # a wrong guess here would be the failure
    failure.text = xml_text("\n".join([*causes, *said, *names]))
    return _test(name, case.name, failure)


def _naming(result: RuntimeResult) -> str:
    return text.naming(result.artifact or result.runtime, result)


def _test(suite: str, name: str, *outcome: Failure | Error | Skipped) -> TestCase:
    test = TestCase(xml_text(name), classname=xml_text(suite))
    test.result = list(outcome)
    return test
