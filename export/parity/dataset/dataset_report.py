"""The report of a check of a data set, and what one artifact in one runtime has come to once its shards are merged."""

from pathlib import Path

from keras_pe.export.parity.dataset.presentation.data_document import document
from keras_pe.export.parity.dataset.results import DatasetResult, DatasetResults, OutputSummary
from keras_pe.export.parity.parity_report import untaken
from keras_pe.export.parity.reports.document import Document
from keras_pe.export.parity.reports.json import Published
from keras_pe.export.parity.reports.report import Report
from keras_pe.export.parity.statistics.output import OutputStatistics
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.parity.work.job import Calibration, Target
from keras_pe.export.parity.work.schedule import Tally


class DatasetReport(Report, DatasetResults):
    """What `check_dataset` returns: the fields of `DatasetResults`, and the ways to read them.

    `print(report)` shows what the terminal does, `report.save("report.html")` writes a page, `report.to_dict()` returns
    JSON's plain values.
    """

    published = Published("dataset-report", "A check of a data set", DatasetResults)

    def document(self) -> Document:
        """Returns what the report says, in sentences, tables and pictures."""
        return document(self)


def not_taken(format: str, path: Path, allow_changed: float) -> DatasetResult:
    """Returns the result of an artifact that no runtime ran: it has failed, whatever else has passed."""
    return DatasetResult(str(path), format, "none", "", allow_changed, RuntimeStatistics(), error=untaken(format))


def summarize(calibration: Calibration, target: Target, tally: Tally | None, allow_changed: float) -> DatasetResult:
    """Returns what one artifact in one runtime has come to."""
    found = tally or Tally(RuntimeStatistics())
    measured, none = found.statistics.outputs, OutputStatistics()
    outputs = tuple(
        OutputSummary(
            output=name,
            decision=None if rule.decision is None else str(rule.decision),
            noise_floor=rule.unit or None,
            allowed=rule.allowed,
            statistics=measured.get(name, none),
        )
        for name, rule in calibration.rules.get(target.key, {}).items()
    )
    return DatasetResult(
        artifact=str(target.path),
        format=target.spec.format,
        runtime=target.spec.name,
        version=calibration.versions.get(target.key, ""),
        allow_changed=allow_changed,
        statistics=found.statistics,
        outputs=outputs if tally else (),
        error=calibration.unloaded.get(target.key, ""),
        rows_per_second=found.rows / found.seconds if found.seconds else None,
        names=calibration.names.get(target.key, ()),
    )
