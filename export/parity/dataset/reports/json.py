"""The report of a data set as JSON, and the JSON Schema that it keeps."""

import importlib.resources
import json
import math
from typing import Any

from keras_pe.export.parity.dataset.reports import text
from keras_pe.export.parity.dataset.results import DatasetReport, DatasetResult, OutputSummary
from keras_pe.export.parity.dataset.statistics.histogram import Histogram
from keras_pe.export.parity.dataset.statistics.worst import WorstRow
from keras_pe.export.parity.reports.json import schema as parity_schema

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes; a new field does not raise it."""

QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of what `render` returns, with that of the diagnosis within."""
    text = importlib.resources.files(__package__).joinpath("report.schema.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    content["$defs"]["ParityReport"] = parity_schema()
    return content


def render(report: DatasetReport) -> str:
    """Returns the whole report; NaN and infinities are texts."""
    return json.dumps({"$schema": schema()["$id"], **plain(report)}, indent=2, allow_nan=False) + "\n"


def plain(report: DatasetReport) -> dict[str, Any]:
    """Returns the report as JSON's plain values."""
    found: dict[str, Any] = _finite(
        {
            "schema_version": SCHEMA_VERSION,
            "passed": report.passed,
            "model": report.model,
            "basis": report.basis,
            "data": report.data,
            "rows": report.rows,
            "total": report.total,
            "stopped_early": report.stopped_early,
            "reused_rows": report.reused,
            "results": [_result(result) for result in report.results],
            "diagnosis": report.diagnosis and {"$schema": parity_schema()["$id"], **report.diagnosis.to_dict()},
            "versions": dict(report.versions),
            "seconds": report.seconds,
        }
    )
    return found


def _result(result: DatasetResult) -> dict[str, Any]:
    found = result.statistics
    return {
        "artifact": result.artifact,
        "format": result.format,
        "runtime": result.runtime,
        "version": result.version,
        "passed": result.passed,
        "verdict": text.verdict(result),
        "message": result.message,
        "rows": found.rows,
        "failed_rows": found.failed,
        "unanswered_rows": found.unanswered,
        "allow_changed": result.allowed,
        "upper_bound_95": result.bound,
        "rows_per_second": result.rows_per_second,
        "problems": [{"message": message, "first_row": row} for message, row in found.problems.items()],
        "outputs": [_output(output) for output in result.outputs],
        "worst_rows": [_row(row) for row in found.worst],
    }


def _output(output: OutputSummary) -> dict[str, Any]:
    found = output.statistics
    return {
        "output": output.output,
        "decision": output.decision or None,
        "noise_floor": output.unit or None,
        "allowed": output.allowed,
        "values": found.values,
        "max_abs_diff": found.max_abs_diff,
        "factor": output.factor,
        "quantiles": {str(share): output.quantile(share) for share in QUANTILES},
        "errors": _histogram(found.errors),
        "rows_out_of_tolerance": found.out_of_tolerance,
        "clashes": found.clashes,
        "nonfinite": {
            name: getattr(found, name) for name in ("expected_nan", "expected_inf", "actual_nan", "actual_inf")
        },
        "decisions": found.decisions,
        "changed_decisions": found.changed_decisions,
        "changed_rows": found.changed,
        "ties": found.ties,
        "changed_classes": [
            {"expected": expected, "actual": None if actual < 0 else actual, "count": count}
            for (expected, actual), count in sorted(found.classes.items(), key=lambda item: (-item[1], item[0]))
        ],
        "margin_shares": _histogram(found.margins),
    }


def _histogram(found: Histogram) -> list[dict[str, Any]]:
    return [{"from": low, "to": high, "rows": count} for low, high, count in found.edges()]


def _row(row: WorstRow) -> dict[str, Any]:
    return {
        "row": row.row,
        "place": row.place,
        "severity": row.severity.name.lower(),
        "error": row.error,
        "message": row.message,
        "expected": {name: _value(array.tolist()) for name, array in row.expected.items()},
        "actual": {name: _value(array.tolist()) for name, array in row.actual.items()},
    }


def _value(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _finite(value: Any) -> Any:
    """Returns plain values in which NaN and infinities are texts."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _value(value)
