"""Renders a document as JUnit XML, with a test for each verdict."""

import re

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from keras_pe.export.parity.reports.document import CaseVerdict, Document, Outcome, Suite

# Characters that XML 1.0 cannot represent.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RESULTS = {Outcome.FAILED: Failure, Outcome.ERROR: Error, Outcome.SKIPPED: Skipped}


def render(document: Document) -> str:
    """Returns the document; it has a failure or an error exactly where the check has not passed."""
    found = JUnitXml(_text(document.title))
    for suite in document.suites:
        found.add_testsuite(_suite(suite))
    found.update_statistics()  # type: ignore[no-untyped-call]
    found.time = document.seconds
    for element, suite in zip(found, document.suites, strict=True):  # the statistics have reset it
        element.time = suite.seconds
    return '<?xml version="1.0" encoding="utf-8"?>\n' + bytes(found.tostring()).decode()  # type: ignore[no-untyped-call]


def _suite(suite: Suite) -> TestSuite:
    found = TestSuite(_text(suite.name))
    for name, value in suite.properties.items():
        found.add_property(name, _text(value))
    for verdict in suite.verdicts:
        found.add_testcase(_test(suite.name, verdict))
    return found


def _test(suite: str, verdict: CaseVerdict) -> TestCase:
    test = TestCase(_text(verdict.name), classname=_text(suite))
    if verdict.outcome is not Outcome.PASSED:
        result = _RESULTS[verdict.outcome](_text(verdict.message), verdict.kind or None)
        if verdict.details:
            result.text = _text("\n".join(verdict.details))
        test.result = [result]
    return test


def _text(value: str) -> str:
    """Returns a text without the characters that XML cannot write."""
    return _ILLEGAL.sub("\ufffd", value)
