"""The document of a check of a data set, with its tables and pictures."""

import math
from collections.abc import Iterator

import numpy as np

from keras_pe.export.parity.dataset.presentation.row_sentences import (
    describe_row,
    failing,
    remarks,
    shown_values,
    statements,
    summary,
)
from keras_pe.export.parity.dataset.results import DatasetResult, DatasetResults, OutputSummary
from keras_pe.export.parity.presentation.filling import Subject, fill, skipped_verdicts
from keras_pe.export.parity.presentation.tables import number
from keras_pe.export.parity.reports.document import (
    CaseVerdict,
    Document,
    Limit,
    Outcome,
    Part,
    Picture,
    PictureAxis,
    Row,
    Steps,
    Suite,
    TextTable,
)
from keras_pe.export.parity.statistics.histogram import Histogram

_COLUMNS = ("rows", "failed", "changed", "max |diff|", "99.9 % within", "over floor")
_OUTPUTS = (
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
_CLASSES = ("output", "expected class", "actual class", "decisions")
_ROWS = ("row", "place", "what", "error / allowed", "expected", "actual")
_MOST_CLASSES = 20

_BINS_A_DECADE = 4


def document(found: DatasetResults) -> Document:
    """Returns what the report of a data set says."""
    left_out = tuple(skipped_verdicts(found))
    others = [Suite(found.model, left_out)] if left_out else []
    said = Document(
        title=f"{found.data} through {found.model}",
        passed=found.passed,
        summary=summary(found),
        remarks=tuple(remarks(found)),
        suites=(*(_suite(found, result) for result in found.results), *others),
    )
    compared = sum(result.statistics.rows for result in found.results)
    return fill(found, said, [_subject(result) for result in found.results], columns=_COLUMNS, compared=compared)


def _subject(result: DatasetResult) -> Subject:
    found = result.statistics
    decides = any(output.decision for output in result.outputs)
    compared = [output for output in result.outputs if output.statistics.values]
    largest = number(max(output.statistics.max_abs_diff for output in compared)) if compared else "-"
    part = Part(
        title="",
        passed=result.passed,
        statements=tuple(statements(result)),
        notes=tuple(_notes(result)),
        tables=(
            TextTable("Outputs", _OUTPUTS, tuple(map(_output, result.outputs)), wide=True),
            TextTable("Changed decisions by class", _CLASSES, tuple(_classes(result))),
            TextTable("Worst rows", _ROWS, tuple(_worst_rows(result)), wide=True),
        ),
        pictures=tuple(picture for output in result.outputs for picture in pictures(output)),
    )
    return Subject(
        name=result.runtime,
        artifact=result.artifact.rpartition("/")[2],
        part=part,
        why="" if found.rows else " (not loaded)" if result.error else " (no rows)",
        figures=(
            f"{found.rows:,}",
            f"{found.failed:,}" if found.rows else "-",
            f"{result.changed:,}" if decides else "-",
            largest,
            number(max(output.quantile(0.999) for output in compared)) if compared else "-",
            "-" if result.factor is None else f"{result.factor:.2g}",
        ),
        short=", not loaded" if result.error else f" {largest}",
        names=result.names,
    )


def _notes(result: DatasetResult) -> Iterator[str]:
    if result.version:
        yield result.version
    if result.rows_per_second is not None:
        yield f"{result.rows_per_second:,.0f} rows a second inside the runtime"


def _output(output: OutputSummary) -> Row:
    found, decides = output.statistics, bool(output.decision)
    return (
        output.output,
        output.decision or "-",
        f"{found.rows:,}",
        number(found.max_abs_diff) if found.values else "-",
        "-" if output.factor is None else f"{output.factor:.2g}",
        *(number(output.quantile(share)) if found.values else "-" for share in (0.5, 0.99, 0.999)),
        f"{found.out_of_tolerance:,}" if output.allowed is not None else "-",
        f"{found.clashes:,}",
        f"{found.changed:,}" if decides else "-",
        f"{found.ties:,}" if decides else "-",
        f"{found.margins.quantile(1.0):.2g}" if decides else "-",
    )


def _classes(result: DatasetResult) -> Iterator[Row]:
    """Yields the changes of class that were counted most often, the most frequent first."""
    for output in result.outputs:
        found = output.statistics.changed_classes
        for each in found[:_MOST_CLASSES]:
            actual = "another" if each.actual is None else str(each.actual)
            yield (output.output, str(each.expected), actual, f"{each.count:,}")
        if len(found) > _MOST_CLASSES:
            rest = sum(each.count for each in found[_MOST_CLASSES:])
            yield (output.output, "others", "", f"{rest:,}")


def _worst_rows(result: DatasetResult) -> Iterator[Row]:
    """Yields the worst rows, the worst first; those that agree only where none fails."""
    for row in failing(result) or result.statistics.worst[:3]:
        values = list(shown_values(row))
        yield (
            f"{row.row:,}",
            row.place,
            row.severity.name.lower().replace("_", " "),
            f"{row.error:.2g}",
            "; ".join(f"{name} {expected}" for name, expected, _ in values),
            row.message or "; ".join(f"{name} {actual}" for name, _, actual in values),
        )


def _suite(found: DatasetResults, result: DatasetResult) -> Suite:
    name = f"{result.runtime} {result.artifact}"
    rows = f"{result.statistics.rows:,} rows of {found.data}"
    if result.error:
        return Suite(name, (CaseVerdict("loads", Outcome.ERROR, "not loaded", result.error),))
    if result.passed and not found.stopped_early:
        return Suite(name, (CaseVerdict(rows, Outcome.PASSED),))
    kind = "stopped early" if found.stopped_early else "difference"
    details = (*result.statistics.problems, *map(describe_row, failing(result)))
    return Suite(name, (CaseVerdict(rows, Outcome.FAILED, kind, result.verdict, details),))


def pictures(output: OutputSummary) -> Iterator[Picture]:
    """Yields how many rows have how large an error, and how much of their margins it takes, where there are any."""
    floor, allowed = output.noise_floor or 0.0, output.allowed or 0.0
    limits = (Limit("noise floor", floor, "x", dotted=True), Limit("allowed", allowed, "x"))
    said = "Each row by its largest |difference|."
    found = _steps(output.statistics.errors)
    if found is not None:
        label = "largest |difference| of a row\n(in the output's own unit)"
        yield _histogram(f"Errors of output {output.output!r}", said, label, found, limits)
    found = _steps(output.statistics.margins)
    if found is not None:
        said = "Each row by the share of its decision's margin that the error takes: below 1 none changes."
        title = f"Margins of the decisions by output {output.output!r}"
        limit = Limit("a decision can change", 1.0, "x")
        yield _histogram(title, said, "share of the margin that is taken", found, (limit,))


def _histogram(title: str, said: str, label: str, steps: Steps, limits: tuple[Limit, ...]) -> Picture:
    return Picture(title, said, PictureAxis(label, "log"), PictureAxis("number of rows", "count"), (steps,), limits)


def _steps(found: Histogram) -> Steps | None:
    """Returns the counts in wider bins, None where no value is finite and above 0."""
    bins = [each for each in found.bins if 1e-300 < each.low < math.inf]
    if not bins:
        return None
    places = np.floor(np.log10([each.low for each in bins]) * _BINS_A_DECADE).astype(int)
    counts = np.bincount(places - places.min(), [each.count for each in bins])
    edges = 10.0 ** (np.arange(places.min(), places.max() + 2) / _BINS_A_DECADE)
    return Steps("rows", tuple(edges.tolist()), tuple(counts.tolist()))
