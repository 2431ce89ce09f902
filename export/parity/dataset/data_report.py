"""Renders the report of a data set check: sentences, tables and pictures of many rows, in one document."""

import math
from collections.abc import Iterator

import numpy as np

from keras_pe.export.parity.dataset.dataset_records import DatasetResult, DatasetResults, OutputSummary
from keras_pe.export.parity.presentation.figures import number
from keras_pe.export.parity.presentation.report_content import (
    Subject,
    artifact_names,
    beside,
    causes,
    fill,
    skip_statements,
)
from keras_pe.export.parity.reports.document import (
    CaseVerdict,
    Document,
    Limit,
    Outcome,
    Picture,
    PictureAxis,
    Row,
    Statement,
    Steps,
    Suite,
    TextTable,
)
from keras_pe.export.parity.reports.json import Published
from keras_pe.export.parity.reports.report import Report
from keras_pe.export.parity.statistics.confidence import rate
from keras_pe.export.parity.statistics.histogram import Histogram
from keras_pe.export.parity.statistics.runtime_statistics import Severity, WorstRow
from keras_pe.export.results import Array

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
_MOST_VALUES = 6

_BINS_A_DECADE = 4


class DatasetReport(Report, DatasetResults):
    """The report of `check_dataset`: the fields of `DatasetResults`, and methods that render them.

    `print(report)` prints the text of the terminal, `report.save("report.html")` writes a page, and `report.to_dict()`
    returns JSON values.
    """

    published = Published("dataset-report", "A check of a data set", DatasetResults)

    def document(self) -> Document:
        page = Document(
            title=f"{self.data} through {self.model}",
            passed=self.passed,
            summary=_summary(self),
            remarks=tuple(_remarks(self)),
            suites=tuple(_suite(self, result) for result in self.results),
        )
        compared = sum(result.statistics.rows for result in self.results)
        names = artifact_names(result.artifact for result in self.results)
        subjects = [_subject(result, names[result.artifact]) for result in self.results]
        return fill(self, page, subjects, columns=_COLUMNS, compared=compared)


def _subject(result: DatasetResult, name: str) -> Subject:
    found = result.statistics
    decides = any(output.decision for output in result.outputs)
    compared = [output for output in result.outputs if output.statistics.values]
    largest = number(max(output.statistics.max_abs_diff for output in compared)) if compared else "-"
    return Subject(
        name=result.runtime,
        artifact=name,
        passed=result.passed,
        why="" if found.rows else " (not loaded)" if result.error else " (no rows)",
        figures=(
            f"{found.rows:,}",
            f"{found.failed:,}" if found.rows else "-",
            f"{result.changed:,}" if decides else "-",
            largest,
            number(max(output.quantile(0.999) for output in compared)) if compared else "-",
            "-" if result.factor is None else f"{result.factor:.2g}",
        ),
        statements=tuple(_statements(result)),
        notes=tuple(_notes(result)),
        tables=(
            TextTable("Outputs", _OUTPUTS, tuple(map(_output, result.outputs)), wide=True),
            TextTable("Changed decisions by class", _CLASSES, tuple(_classes(result))),
            TextTable("Worst rows", _ROWS, tuple(_worst_rows(result)), wide=True),
        ),
        pictures=tuple(picture for output in result.outputs for picture in _pictures(output)),
        short=", not loaded" if result.error else f" {largest}",
        names=result.names,
    )


def _notes(result: DatasetResult) -> Iterator[str]:
    if result.version:
        yield result.version
    if result.weights is not None:
        yield f"{result.weights.compared} of {result.weights.count} weights compared by content"
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
    """Yields the most frequent changes of class, the most frequent first."""
    for output in result.outputs:
        found = output.statistics.changed_classes
        for each in found[:_MOST_CLASSES]:
            actual = "another" if each.actual is None else str(each.actual)
            yield (output.output, str(each.expected), actual, f"{each.count:,}")
        if len(found) > _MOST_CLASSES:
            rest = sum(each.count for each in found[_MOST_CLASSES:])
            yield (output.output, "others", "", f"{rest:,}")


def _worst_rows(result: DatasetResult) -> Iterator[Row]:
    """Yields the failing rows, the worst first; three agreeing rows if no row fails."""
    for row in result.statistics.failing or result.statistics.worst[:3]:
        values = list(_shown_values(row))
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
    details = (*result.statistics.problems, *map(describe_row, result.statistics.failing))
    return Suite(name, (CaseVerdict(rows, Outcome.FAILED, kind, result.verdict, details),))


def _pictures(output: OutputSummary) -> Iterator[Picture]:
    """Yields a histogram of the rows' errors, and one of their shares of the margins, if there are any values."""
    floor, allowed = output.noise_floor or 0.0, output.allowed or 0.0
    limits = (Limit("noise floor", floor, "x", dotted=True), Limit("allowed", allowed, "x"))
    text = "Each row by its largest |difference|."
    found = _steps(output.statistics.errors)
    if found is not None:
        label = "largest |difference| of a row\n(in the output's own unit)"
        yield _histogram(f"Errors of output {output.output!r}", text, label, found, limits)
    found = _steps(output.statistics.margins)
    if found is not None:
        text = "Each row by its error as a share of its decision's margin. Below 1 no decision changes."
        title = f"Margins of the decisions by output {output.output!r}"
        limit = Limit("a decision can change", 1.0, "x")
        yield _histogram(title, text, "error / margin of the decision", found, (limit,))


def _histogram(title: str, text: str, label: str, steps: Steps, limits: tuple[Limit, ...]) -> Picture:
    return Picture(title, text, PictureAxis(label, "log"), PictureAxis("number of rows", "count"), (steps,), limits)


def _steps(found: Histogram) -> Steps | None:
    """Returns the counts in wider bins; None if no value is finite and above 0."""
    bins = [each for each in found.bins if 1e-300 < each.low < math.inf]
    if not bins:
        return None
    places = np.floor(np.log10([each.low for each in bins]) * _BINS_A_DECADE).astype(int)
    counts = np.bincount(places - places.min(), [each.count for each in bins])
    edges = 10.0 ** (np.arange(places.min(), places.max() + 2) / _BINS_A_DECADE)
    return Steps("rows", tuple(edges.tolist()), tuple(counts.tolist()))


def _summary(found: DatasetResults) -> tuple[str, ...]:
    """Returns the number of rows, the reference, and a confidence bound if no row fails."""
    rows = f"{found.rows:,}" + (f" of {found.total:,}" if found.total not in (None, found.rows) else "")
    measured = f"{rows} rows of {found.data}, measured against {found.reference}, in {found.seconds:.1f} s."
    measured = " ".join([measured, *beside(found)])
    bound = max((result.upper_bound_95 for result in found.results if result.statistics.rows), default=1.0)
    if bound >= 0.5 or not found.passed:
        return (measured,)
    return (measured, f"With 95 % confidence fewer than {rate(bound)} of all similar rows fail.")


def _statements(result: DatasetResult) -> Iterator[Statement]:
    """Yields the statements about one runtime."""
    yield Statement("verdict", result.verdict)
    yield from causes(result.findings)
    for problem, first in result.statistics.problems.items():
        yield Statement("error", f"{problem}, first in row {first:,}")
    for output in result.outputs:
        if output.statistics.ties:
            ties = f"{output.output}: {output.statistics.ties:,} of the changed rows"
            yield Statement("ties", f"{ties} have a margin within 8 times the model's own error")
    for row in result.statistics.failing[:3]:
        yield Statement("worst", describe_row(row))


def _remarks(found: DatasetResults) -> Iterator[Statement]:
    """Yields the statements about the whole check."""
    yield from causes(found.diagnosis.findings if found.diagnosis is not None else ())
    yield from skip_statements(found)
    for runtime, output in ((each.runtime, output) for each in found.results for output in each.outputs):
        before, after = output.expected_accuracy, output.actual_accuracy
        if before is not None and after is not None:
            what = f"{output.output} of {output.statistics.labels:,} labels"
            yield Statement("accuracy", f"{what}: {before:.2%} in the model, {after:.2%} in {runtime}")
    if found.stopped_early:
        yield Statement("stopped", f"after {found.rows:,} rows, at the limit of failed rows (`stop_after`)")
    if found.reused_rows:
        yield Statement("checkpoint", f"the results of {found.reused_rows:,} rows came from the checkpoint")


def describe_row(row: WorstRow) -> str:
    """Returns one sentence about a row."""
    how = {
        Severity.AGREES: "agrees",
        Severity.FAILED: "fails",
        Severity.CLASH: "has a NaN or an infinity on one side only",
        Severity.NO_ANSWER: "has no answer",  # without a reason, since all such rows share one statement of it
    }[row.severity]
    values = [f"{name} {expected} -> {actual}" for name, expected, actual in _shown_values(row)]
    return f"row {row.row:,} ({row.place}) {how}" + (f": {'; '.join(values)}" if values else "")


def _shown_values(row: WorstRow) -> Iterator[tuple[str, str, str]]:
    """Yields each answered output with its expected and actual values around the largest difference."""
    for name, actual in row.actual.items():
        around = _largest_difference(row.expected[name], actual)
        yield name, _short(row.expected[name], around), _short(actual, around)


def _short(array: Array, around: int) -> str:
    """Returns a few values of an array around one index."""
    values = array.ravel()
    start = max(0, min(around - _MOST_VALUES // 2, values.size - _MOST_VALUES))
    some = values[start : start + _MOST_VALUES].tolist()
    shown = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in some]
    before, after = ["..."] * (start > 0), ["..."] * (start + _MOST_VALUES < values.size)
    return f"[{', '.join([*before, *shown, *after])}]"


def _largest_difference(expected: Array, actual: Array) -> int:
    """Returns the index of the value that differs most; 0 if the shapes differ or there are no values."""
    if expected.shape != actual.shape or not expected.size:
        return 0
    if expected.dtype.kind in "OSU":
        return int(np.argmax(expected.ravel() != actual.ravel()))
    with np.errstate(invalid="ignore"):
        difference = np.abs(expected.ravel().astype(np.float64) - actual.ravel().astype(np.float64))
    return int(np.nan_to_num(difference, nan=np.inf).argmax())
