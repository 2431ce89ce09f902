"""The report of a check of a data set."""

from keras_pe.export.parity.dataset.presentation.data_document import document
from keras_pe.export.parity.dataset.results import DatasetResults
from keras_pe.export.parity.reports.document import Document
from keras_pe.export.parity.reports.json import Published
from keras_pe.export.parity.reports.report import Report


class DatasetReport(Report, DatasetResults):
    """What `check_dataset` returns: the fields of `DatasetResults`, and the ways to read them.

    `print(report)` shows what the terminal does, `report.save("report.html")` writes a page, `report.to_dict()` returns
    JSON's plain values.
    """

    published = Published("dataset-report", "A check of a data set", DatasetResults)

    def document(self) -> Document:
        """Returns what the report says, in sentences, tables and pictures."""
        return document(self)
