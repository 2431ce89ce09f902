"""The report of a data set in sentences, in the user's terms."""

from collections.abc import Iterator, Sequence

from keras_pe.export.parity.dataset.results import DatasetReport, DatasetResult
from keras_pe.export.parity.dataset.statistics.worst import Severity, WorstRow
from keras_pe.export.parity.results import Array

HEADER = (
    "runtime",
    "artifact",
    "rows",
    "failed",
    "changed",
    "max |diff|",
    "99.9 % within",
    "over floor",
    "rows/s",
    "result",
)


def to_text(report: DatasetReport) -> str:
    """Returns the whole report as lines."""
    head = f"{report.data} through {report.model}: {'passed' if report.passed else 'FAILED'}"
    return "\n".join([head, *(f"  {line}" for line in remarks(report))])


def remarks(report: DatasetReport) -> list[str]:
    """Returns the verdict on every runtime, and what has to be said beside it."""
    lines = [f"{result.runtime} ({_name(result)}): {verdict(result)}" for result in report.results]
    for result in report.results:
        lines += list(_details(report, result))
    for finding in report.diagnosis.findings if report.diagnosis is not None else ():
        layer = f" in layer {finding.layer!r}" if finding.layer else ""
        lines.append(f"cause in the worst rows{layer}: {finding.cause}. {finding.evidence}")
    if report.stopped_early:
        lines.append(f"stopped after {report.rows:,} rows: as many rows as `stop_after` says have failed")
    if report.reused:
        lines.append(f"the results of {report.reused:,} rows stood in the checkpoint")
    if not report.results or not any(result.statistics.rows for result in report.results):
        lines.append("nothing was compared, and a check that compared nothing has failed")
    return lines


def verdict(result: DatasetResult) -> str:
    """Returns the verdict on one runtime as a sentence in the user's terms."""
    found = result.statistics
    if result.message:
        return f"not loaded: {result.message}"
    if not found.rows:
        return "no row was run"
    decides = any(output.decision for output in result.outputs)
    said = f"{found.rows:,} rows: {result.changed:,} decisions changed" if decides else f"{found.rows:,} rows"
    others = found.failed - (result.changed if decides else 0)
    if others or not decides:
        said += f", {max(others, 0):,} rows {'fail otherwise' if decides else 'out of tolerance'}"
    if result.factor is not None:
        said += f", largest error {result.factor:.2g} times the floor"
    return said + f"; with 95 % confidence fewer than {rate(result.bound)} fail"


def rate(value: float) -> str:
    """Returns a share as a count in a round number, such as "3 in a million", rounded up."""
    for size, name in ((100, "a hundred"), (10_000, "10,000"), (1_000_000, "a million"), (10**9, "a billion")):
        count = value * size
        if count >= 0.995:
            return f"{count:.3g} in {name}"
    return f"{value:.1e}"


def row(result: DatasetResult) -> Sequence[str]:
    """Returns the cells of a runtime, under `HEADER`."""
    found = result.statistics
    verdict = "passed" if result.passed else "FAILED"
    if not found.rows:
        verdict += " (not loaded)" if result.message else " (no rows)"
        return (result.runtime, _name(result), "0", *("-",) * 6, verdict)
    largest = max((output.statistics.max_abs_diff for output in result.outputs), default=0.0)
    quantile = max((output.quantile(0.999) for output in result.outputs), default=0.0)
    decides = any(output.decision for output in result.outputs)
    return (
        result.runtime,
        _name(result),
        f"{found.rows:,}",
        f"{found.failed:,}",
        f"{result.changed:,}" if decides else "-",
        f"{largest:.1e}",
        f"{quantile:.1e}",
        "-" if result.factor is None else f"{result.factor:.2g}",
        "-" if result.rows_per_second is None else f"{result.rows_per_second:,.0f}",
        verdict,
    )


def describe_row(found: WorstRow) -> str:
    """Returns one of the worst rows as a sentence."""
    how = {
        Severity.AGREES: "agrees",
        Severity.FAILED: "fails",
        Severity.CLASH: "has a NaN or an infinity on one side only",
        Severity.NO_ANSWER: f"has no answer ({found.message})",
    }[found.severity]
    values = [f"{name} {short(found.expected[name])} -> {short(found.actual[name])}" for name in found.actual]
    return f"row {found.row:,} ({found.place}) {how}" + (f": {'; '.join(values)}" if values else "")


def _details(report: DatasetReport, result: DatasetResult) -> Iterator[str]:
    for problem, first in result.statistics.problems.items():
        yield f"{result.runtime}: {problem}, first in row {first:,}"
    ties = max((output.statistics.ties for output in result.outputs), default=0)
    if ties:
        yield (
            f"{result.runtime}: {ties:,} of the changed rows are ties, whose margin is within 8 times "
            f"{report.model}'s own error"
        )
    for found in [each for each in result.statistics.worst if each.severity > Severity.AGREES][:3]:
        yield f"{result.runtime}: {describe_row(found)}"


def _name(result: DatasetResult) -> str:
    return result.artifact.rpartition("/")[2]


def short(array: Array) -> str:
    """Returns the first values of an array."""
    values = array.ravel()
    shown = ", ".join(f"{value:.4g}" if values.dtype.kind == "f" else str(value) for value in values[:6].tolist())
    return f"[{shown}{', ...' if values.size > 6 else ''}]"
