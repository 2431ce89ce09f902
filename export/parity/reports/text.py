"""A report as plain text: one line a runtime, and a sentence for each thing that is wrong."""

import math
from collections.abc import Sequence

from keras_pe.export.parity.results import Comparison, ParityReport, RuntimeResult

HEADER = ("runtime", "artifact", "cases", "max |diff|", "allowed", "over floor", "result")


def render_text(report: ParityReport) -> str:
    """Returns the whole report."""
    rows = [HEADER, *(row(result) for result in report.results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    verdict = f"parity of {report.model}: {'passed' if report.passed else 'FAILED'}"
    return "\n".join([verdict, f"measured against {report.basis}", *table, *remarks(report)])


def remarks(report: ParityReport) -> list[str]:
    """Returns a sentence for each thing that the table does not say."""
    lines = [sentence for result in report.results if not result.passed for sentence in sentences(report, result)]
    lines += [f"not tried: {each.runtime}. Install it with: {each.install}" for each in report.not_tried]
    refused = [tried for tried in report.tried if tried.refused]
    if refused:
        names = "; ".join(tried.case for tried in refused)
        lines.append(f"refused by the reference itself: {names} ({refused[0].refused})")
        if len(refused) == len(report.tried):
            lines.append("no case was fair: give the inputs' fair values (`ranges`) or cases of your own (`inputs`)")
    if not report.compared:
        lines.append("nothing was compared, and a check that compared nothing has failed")
    return lines


def sentences(report: ParityReport, result: RuntimeResult) -> list[str]:
    """Returns what is wrong with one runtime: the worst output, other errors, and the causes."""
    said = []
    if result.status != "compared":
        said.append(f"{result.runtime} {result.status}: {result.message}")
    if result.worst is not None and not result.worst[1].passed:
        said.append(describe(report.model, result.runtime, *result.worst))
    messages = [f"{case.case}: {case.message}" for case in result.cases if case.status == "failed" and case.message]
    if messages:
        more = f" (and {len(messages) - 1} more cases)" if len(messages) > 1 else ""
        said.append(f"{result.runtime} with {messages[0]}{more}")
    for finding in result.findings:
        layer = f" in layer {finding.layer!r}" if finding.layer else ""
        said.append(f"{result.runtime}: cause{layer}: {finding.cause}. {finding.evidence}")
    return said


def describe(reference: str, runtime: str, case: str, comparison: Comparison) -> str:
    """Returns one failed comparison as a sentence."""
    head = f"{runtime} differs from {reference} in output {comparison.output!r} ({case}): "
    if comparison.worst_index is None:
        return head + f"{comparison.problem}."
    values = (
        "" if comparison.expected is None else f" (expected {comparison.expected:.9g}, actual {comparison.actual:.9g})"
    )
    return head + (
        f"max |difference| {comparison.max_abs_diff:.1e} at {list(comparison.worst_index)}{values}, "
        f"allowed {comparison.allowed:.1e}; {round(comparison.share_out * comparison.count):,} of "
        f"{comparison.count:,} values are out."
    )


def row(result: RuntimeResult) -> Sequence[str]:
    artifact = result.artifact.rpartition("/")[2] or result.format
    verdict = "passed" if result.passed else "FAILED"
    if result.worst is None:
        status = "nothing compared" if result.status == "compared" else result.status
        return (result.runtime, artifact, str(len(result.cases)), "-", "-", "-", f"{verdict} ({status})")
    worst = result.worst[1]
    numbers = ("-", "-") if math.isinf(worst.max_abs_diff) else (f"{worst.max_abs_diff:.1e}", f"{worst.allowed:.1e}")
    factor = "-" if worst.factor is None else f"{worst.factor:.2g}"
    return (result.runtime, artifact, str(len(result.cases)), *numbers, factor, verdict)
