"""The report of a data set in sentences, in the user's terms."""

import math
import textwrap
from collections.abc import Iterator, Sequence

from keras_pe.export.parity.dataset.results import DatasetReport, DatasetResult
from keras_pe.export.parity.dataset.statistics.worst import Severity, WorstRow
from keras_pe.export.results import Array

WIDTH = 120

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


def to_text(report: DatasetReport, width: int = WIDTH) -> str:
    """Returns the whole report as lines of at most so many columns, where the words allow it."""
    verdict = "passed" if report.passed else "FAILED"
    lines = [f"{verdict}: {report.data} through {report.model}, measured against {report.basis}"]
    for result in report.results:
        lines.append(f"{result.runtime} {_name(result)}: {'passed' if result.passed else 'FAILED'}")
        lines += [f"  {label}: {sentence}" for label, sentence in statements(report, result)]
    lines += [f"{label}: {sentence}" for label, sentence in general_statements(report)]
    return "\n".join(_wrapped(line, width) for line in lines)


def remarks(report: DatasetReport) -> list[str]:
    """Returns the statements on all runtimes, and what has to be said beside them, as sentences."""
    of_runtimes = [
        f"{result.runtime} {_name(result)}: {sentence}"
        for result in report.results
        for _, sentence in statements(report, result)
    ]
    return of_runtimes + [sentence for _, sentence in general_statements(report)]


def statements(report: DatasetReport, result: DatasetResult) -> Iterator[tuple[str, str]]:
    """Returns what there is to say of one runtime: a label, and a sentence."""
    yield "verdict", verdict(result)
    for problem, first in result.statistics.problems.items():
        yield "error", f"{problem}, first in row {first:,}"
    for output in result.outputs if result.statistics.rows else ():
        shares = ((0.5, "half"), (0.99, "99 %"), (0.999, "99.9 %"))
        spread = ", ".join(f"{name} of the rows within {output.quantile(share):.1e}" for share, name in shares)
        yield "errors", f"{output.output}: {spread}, all within {output.statistics.max_abs_diff:.1e}"
        if output.statistics.ties:
            ties = f"{output.statistics.ties:,} of the changed rows"
            yield "ties", f"{ties} have a margin within 8 times {report.model}'s own error"
        classes = sorted(output.statistics.classes.items(), key=lambda item: (-item[1], item[0]))[:3]
        for (expected, actual), count in classes:
            yield "changed", f"{output.output}: {count:,} from {expected} to {'another' if actual < 0 else actual}"
    for found in [each for each in result.statistics.worst if each.severity > Severity.AGREES][:3]:
        yield "worst", describe_row(found)
    if result.rows_per_second is not None:
        yield "speed", f"{result.rows_per_second:,.0f} rows a second inside the runtime"


def general_statements(report: DatasetReport) -> Iterator[tuple[str, str]]:
    """Returns what there is to say of the check as a whole: a label, and a sentence."""
    for finding in report.diagnosis.findings if report.diagnosis is not None else ():
        layer = f"in layer {finding.layer!r}: " if finding.layer else ""
        yield "cause", f"{layer}{finding.cause}. {finding.evidence}"
    if report.stopped_early:
        yield "stopped", f"after {report.rows:,} rows: as many as `stop_after` says have failed"
    if report.reused:
        yield "checkpoint", f"the results of {report.reused:,} rows stood in the checkpoint"
    if not any(result.statistics.rows for result in report.results):
        yield "error", "nothing was compared, and a check that compared nothing has failed"


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
    """Returns a share as a count in a round number, such as "3 in a million": two digits, rounded up."""
    for size, name in ((100, "a hundred"), (10_000, "10,000"), (1_000_000, "a million"), (10**9, "a billion")):
        count = value * size
        if count >= 0.995:
            step = 10.0 ** (math.floor(math.log10(count)) - 1)
            return f"{math.ceil(count / step - 1e-9) * step:g} in {name}"
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


def _wrapped(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, max(width, 40), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _name(result: DatasetResult) -> str:
    return result.artifact.rpartition("/")[2]


def short(array: Array) -> str:
    """Returns the first values of an array."""
    values = array.ravel()
    shown = ", ".join(f"{value:.4g}" if values.dtype.kind == "f" else str(value) for value in values[:6].tolist())
    return f"[{shown}{', ...' if values.size > 6 else ''}]"
