"""The report of a check."""

from keras_pe.export.parity.presentation.check_document import document
from keras_pe.export.parity.reports.document import Document
from keras_pe.export.parity.reports.json import Published
from keras_pe.export.parity.reports.report import Report
from keras_pe.export.results import CheckResults


class ParityReport(Report, CheckResults):
    """What `check_parity` returns: the fields of `CheckResults`, and the ways to read them.

    `print(report)` shows what the terminal does, `report.save("report.html")` writes a page, `report.to_dict()` returns
    JSON's plain values.
    """

    published = Published("parity-report", "A parity check", CheckResults)

    def document(self) -> Document:
        """Returns what the report says, in sentences, tables and pictures."""
        return document(self)
