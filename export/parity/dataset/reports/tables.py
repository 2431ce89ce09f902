"""The tables of a data set's report, for every form that has tables."""

from collections.abc import Iterator

from keras_pe.export.parity.dataset.reports.text import short
from keras_pe.export.parity.dataset.results import DatasetReport, DatasetResult
from keras_pe.export.parity.dataset.statistics.worst import Severity

Row = tuple[str, ...]

OUTPUT_HEADER: Row = (
    "output",
    "decides by",
    "rows",
    "max |diff|",
    "over floor",
    "median",
    "99 % within",
    "99.9 % within",
    "out of tolerance",
    "NaN or inf clash",
    "changed",
    "ties",
    "margin taken",
)
CLASS_HEADER: Row = ("output", "expected class", "actual class", "decisions")
WORST_HEADER: Row = ("row", "place", "what", "error", "expected", "actual")
SHOWN_CLASSES = 20


def output_rows(result: DatasetResult) -> Iterator[Row]:
    """Returns a row for each output."""
    for output in result.outputs:
        found = output.statistics
        decides = bool(output.decision)
        yield (
            output.output,
            output.decision or "-",
            f"{found.rows:,}",
            f"{found.max_abs_diff:.1e}",
            "-" if output.factor is None else f"{output.factor:.2g}",
            *(f"{output.quantile(share):.1e}" for share in (0.5, 0.99, 0.999)),
            f"{found.out_of_tolerance:,}" if output.allowed is not None else "-",
            f"{found.clashes:,}",
            f"{found.changed:,}" if decides else "-",
            f"{found.ties:,}" if decides else "-",
            f"{found.margins.quantile(1.0):.2g}" if decides else "-",
        )


def class_rows(result: DatasetResult) -> Iterator[Row]:
    """Returns the changes of class that were counted most often, the most frequent first."""
    for output in result.outputs:
        found = sorted(output.statistics.classes.items(), key=lambda item: (-item[1], item[0]))
        for (expected, actual), count in found[:SHOWN_CLASSES]:
            yield (output.output, str(expected), "another" if actual < 0 else str(actual), f"{count:,}")
        if len(found) > SHOWN_CLASSES:
            rest = sum(count for _, count in found[SHOWN_CLASSES:])
            yield (output.output, "others", "", f"{rest:,}")


def worst_rows(result: DatasetResult) -> Iterator[Row]:
    """Returns the worst rows, the worst first; those that agree only where none fails."""
    failing = [row for row in result.statistics.worst if row.severity > Severity.AGREES]
    for row in failing or result.statistics.worst[:3]:
        yield (
            f"{row.row:,}",
            row.place,
            row.severity.name.lower().replace("_", " "),
            f"{row.error:.2g}",
            "; ".join(f"{name} {short(array)}" for name, array in row.expected.items()),
            row.message or "; ".join(f"{name} {short(array)}" for name, array in row.actual.items()),
        )


def tables(result: DatasetResult) -> Iterator[tuple[str, Row, list[Row]]]:
    """Returns the title, the header and the rows of each table of one runtime that has rows."""
    for title, header, rows in (
        ("Outputs", OUTPUT_HEADER, output_rows(result)),
        ("Changed decisions by class", CLASS_HEADER, class_rows(result)),
        ("Worst rows", WORST_HEADER, worst_rows(result)),
    ):
        found = list(rows)
        if found:
            yield title, header, found


def heading(report: DatasetReport) -> str:
    """Returns what was measured, in one sentence."""
    rows = f"{report.rows:,}" + (f" of {report.total:,}" if report.total not in (None, report.rows) else "")
    return f"{rows} rows of {report.data}, measured against {report.basis}, in {report.seconds:.1f} s."
