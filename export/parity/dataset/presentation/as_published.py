"""From the results of a check of a data set to the records that are written as JSON."""

from typing import Any

from keras_pe.export.parity.dataset.presentation.published import (
    Bin,
    ChangedClass,
    Nonfinite,
    PublishedOutput,
    PublishedProblem,
    PublishedReport,
    PublishedResult,
    PublishedRow,
)
from keras_pe.export.parity.dataset.presentation.row_sentences import verdict
from keras_pe.export.parity.dataset.results import DatasetResult, DatasetResults, OutputSummary
from keras_pe.export.parity.statistics.histogram import Histogram
from keras_pe.export.parity.statistics.output import OutputStatistics
from keras_pe.export.parity.statistics.worst import WorstRow

_QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)


def as_published(found: DatasetResults) -> PublishedReport:
    """Returns what is written of a check."""
    return PublishedReport(
        passed=found.passed,
        model=found.model,
        basis=found.basis,
        data=found.data,
        rows=found.rows,
        total=found.total,
        stopped_early=found.stopped_early,
        reused_rows=found.reused,
        results=tuple(map(_result, found.results)),
        diagnosis=found.diagnosis,
        versions=found.versions,
        seconds=found.seconds,
        date=found.date,
        files=found.files,
    )


def _result(result: DatasetResult) -> PublishedResult:
    found = result.statistics
    return PublishedResult(
        artifact=result.artifact,
        format=result.format,
        runtime=result.runtime,
        version=result.version,
        passed=result.passed,
        verdict=verdict(result),
        message=result.message,
        rows=found.rows,
        failed_rows=found.failed,
        unanswered_rows=found.unanswered,
        allow_changed=result.allowed,
        upper_bound_95=result.bound,
        rows_per_second=result.rows_per_second,
        problems=tuple(PublishedProblem(message, row) for message, row in found.problems.items()),
        outputs=tuple(map(_output, result.outputs)),
        worst_rows=tuple(map(_row, found.worst)),
    )


def _output(output: OutputSummary) -> PublishedOutput:
    found = output.statistics
    return PublishedOutput(
        output=output.output,
        decision=output.decision or None,
        noise_floor=output.unit or None,
        allowed=output.allowed,
        values=found.values,
        max_abs_diff=found.max_abs_diff,
        factor=output.factor,
        quantiles={str(share): output.quantile(share) for share in _QUANTILES},
        errors=_bins(found.errors),
        rows_out_of_tolerance=found.out_of_tolerance,
        clashes=found.clashes,
        nonfinite=Nonfinite(found.expected_nan, found.expected_inf, found.actual_nan, found.actual_inf),
        decisions=found.decisions,
        changed_decisions=found.changed_decisions,
        changed_rows=found.changed,
        ties=found.ties,
        changed_classes=_classes(found),
        margin_shares=_bins(found.margins),
    )


def _bins(found: Histogram) -> tuple[Bin, ...]:
    return tuple(Bin(low, high, count) for low, high, count in found.edges())


def _classes(found: OutputStatistics) -> tuple[ChangedClass, ...]:
    counted = sorted(found.classes.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ChangedClass(expected, None if actual < 0 else actual, count) for (expected, actual), count in counted)


def _row(row: WorstRow) -> PublishedRow:
    severity: Any = row.severity.name.lower()
    return PublishedRow(row.row, row.place, severity, row.error, row.message, row.expected, row.actual)
