"""A report as plain text: the verdict, then for each failure cause, place, proof and numbers, then what ran."""

import math
import textwrap
from collections.abc import Iterator

from keras_pe.export.parity.reports.cells import Row, layer_cells, number
from keras_pe.export.parity.reports.groups import Group, group_results
from keras_pe.export.parity.reports.matrix import matrix, narrowed
from keras_pe.export.results import Comparison, ParityReport, RuntimeResult

HEADER: Row = ("runtime", "artifact", "cases", "max |diff|", "allowed", "over floor", "result")
WIDTH = 100

_MOST_CAUSES = 4
_MOST_LAYERS = 6


def render_text(report: ParityReport, width: int = WIDTH) -> str:
    """Returns the report in lines of at most so many columns; only a name that is longer goes beyond."""
    lines = [_wrapped("", verdict(report), width), _wrapped("", f"measured against {report.reference}", width)]
    groups = group_results(report)
    for group in groups:
        if not group.passed:
            lines += ["", _wrapped("", f"{group.name} on {group.artifact}: FAILED", width)]
            lines += [_wrapped(f"  {label}: ".ljust(11), text, width) for label, text in statements(report, group)]
            lines += _layers(group.first, width)
    lines += ["", *aligned([HEADER, *map(row, groups)])]
    for block in narrowed(matrix(groups), width):
        lines += ["", *aligned(block)]
    lines += [_wrapped("", remark, width) for remark in remarks(report)]
    return "\n".join(lines)


def verdict(report: ParityReport) -> str:
    """Returns the first sentence."""
    values = f"{report.compared:,} values in {report.seconds:.1f} s"
    return f"parity of {report.model}: {'passed' if report.passed else 'FAILED'} ({values})"


def statements(report: ParityReport, group: Group) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with a group, each with what kind of statement it is: cause, proof, worst, error."""
    result = group.first
    for finding in result.findings[:_MOST_CAUSES]:
        place = f" in layer {finding.layer!r}" if finding.layer else ""
        place += f" in output {finding.output!r}" if finding.output else ""
        yield "cause", f"{finding.cause}{place}. {finding.evidence}"
    if len(result.findings) > _MOST_CAUSES:
        rest = result.findings[_MOST_CAUSES:]
        layers = ", ".join(dict.fromkeys(repr(each.layer or each.output or each.cause) for each in rest))
        yield "cause", f"and {len(rest)} more: {layers}."
    if result.proof is not None:
        yield "proof", prove(result)
    if result.status != "compared":
        yield "error", f"{result.status}: {result.error}"
    worst = group.worst
    if worst is not None and not worst[2].passed:
        yield "worst", describe(report.model, worst[0].runtime, worst[1], worst[2])
    errors = [f"{case.name}: {case.error}" for case in result.cases if case.status == "failed" and case.error]
    if errors:
        more = f" (and {len(errors) - 1} more cases)" if len(errors) > 1 else ""
        yield "error", f"with {errors[0]}{more}"


def prove(result: RuntimeResult) -> str:
    """Returns what replacing the layers at fault has shown."""
    proof = result.proof
    assert proof is not None
    layers = " and ".join(map(repr, proof.layers))
    numbers = f"it is off by {number(proof.max_abs_diff)}, allowed {number(proof.tolerance)}"
    if proof.holds:
        return f"With Keras' own output of {layers} in its place the artifact returns what Keras returns: {numbers}."
    return f"With Keras' own output of {layers} in its place the artifact is still wrong elsewhere: {numbers}."


def remarks(report: ParityReport) -> list[str]:
    """Returns a sentence for each thing that neither the failures nor the table say."""
    lines = [f"skipped: {each.runtime}. Install it with: {each.install}" for each in report.skipped]
    lines += namings(report)
    lines += placements(report)
    gaps = [c.precision_gap for r in report.results for case in r.cases for c in case.comparisons if c.precision_gap]
    if gaps:
        lines.append(
            "the artifact computes in float32 and is measured in float32; the model in its own precision is up to "
            f"{max(gaps):.1e} from there"
        )
    refused = [case for case in report.cases if case.error]
    if refused:
        names = "; ".join(case.name for case in refused)
        lines.append(f"refused by the reference itself: {names} ({refused[0].error})")
        if len(refused) == len(report.cases):
            lines.append("no case was fair: give the inputs' fair values (`ranges`) or cases of your own (`inputs`)")
    if not report.compared:
        lines.append("nothing was compared, and a check that compared nothing has failed")
    return lines


def namings(report: ParityReport) -> list[str]:
    """Returns a sentence for each artifact that calls its inputs or outputs otherwise: which was taken for which."""
    groups = [group for group in group_results(report) if group.first.names]
    return list(dict.fromkeys(naming(group.artifact or group.name, group.first) for group in groups))


def naming(artifact: str, result: RuntimeResult) -> str:
    """Returns which of an artifact's names was taken for which of the model's, and what told so."""
    pairs = ", ".join(f"{each.kind} {each.model!r} is {each.artifact!r} there" for each in result.names)
    by_order = " and ".join(repr(each.model) for each in result.names if each.by_order)
    order = f", {by_order} by order alone" if by_order else ""
    return f"{artifact} has other names than the model: {pairs}; by type and shape{order}"


def placements(report: ParityReport) -> list[str]:
    """Returns a sentence for each runtime with another execution provider than the CPU's: who got how many nodes."""
    placed = {each.runtime: each.providers for each in report.results if set(each.providers) - {"CPUExecutionProvider"}}
    return [
        f"{runtime}: {', '.join(f'{count} nodes on {provider}' for provider, count in sorted(providers.items()))}"
        for runtime, providers in placed.items()
    ]


def describe(reference: str, runtime: str, case: str, comparison: Comparison) -> str:
    """Returns one failed comparison as a sentence."""
    head = f"{runtime} differs from {reference} in output {comparison.output!r} ({case}): "
    if comparison.worst_index is None:
        return head + f"{comparison.problem}."
    values = ""
    if comparison.truth is not None:
        values = f" (expected {comparison.truth:.9g}, actual {comparison.actual:.9g})"
    out = round(comparison.fraction_out_of_tolerance * comparison.count)
    return head + (
        f"max |difference| {comparison.max_abs_diff:.1e} at {list(comparison.worst_index)}{values}, "
        f"allowed {comparison.tolerance:.1e}; {out:,} of {comparison.count:,} values are out."
    )


def row(group: Group) -> Row:
    """Returns the group's line of the table of runtimes."""
    word = "passed" if group.passed else "FAILED"
    cases = str(len(group.first.cases))
    if group.worst is None:
        status = "nothing compared" if group.first.status == "compared" else group.first.status
        return (group.name, group.artifact, cases, "-", "-", "-", f"{word} ({status})")
    worst = group.worst[2]
    is_finite = math.isfinite(worst.max_abs_diff)
    numbers = (f"{worst.max_abs_diff:.1e}", f"{worst.tolerance:.1e}") if is_finite else ("-", "-")
    ratio = "-" if worst.noise_ratio is None or not is_finite else f"{worst.noise_ratio:.2g}"
    return (group.name, group.artifact, cases, *numbers, ratio, word)


def aligned(rows: list[Row]) -> list[str]:
    """Returns rows as lines with their cells under each other."""
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in rows]


def _layers(result: RuntimeResult, width: int) -> list[str]:
    """Returns the layers at fault with the one before each, and how many others there are."""
    if not any(layer.differs for layer in result.layers):
        return []
    at_fault = [i for i, layer in enumerate(result.layers) if layer.originates_here]
    shown = sorted({j for i in at_fault[:_MOST_LAYERS] for j in (i - 1, i) if j >= 0})
    rows: list[Row] = [("layer", "max |diff|", "allowed", "")]
    for index in shown:
        rows.append(layer_cells(result.layers[index]))
    passed_on = sum(layer.differs and not layer.originates_here for layer in result.layers)
    agreeing = sum(not layer.differs and layer.tensor is not None for layer in result.layers)
    absent = len(result.layers) - agreeing - len(at_fault) - passed_on
    summary = f"{len(result.layers)} layers in all: {agreeing} agree, {len(at_fault)} at fault, {passed_on} after them"
    summary += f", {absent} not in the file by themselves" if absent else ""
    return [*(f"  {line}" for line in aligned(rows)), _wrapped("  ", summary, width)]


def _wrapped(label: str, text: str, width: int) -> str:
    """Returns a text in lines that never break a word or a name, the first behind its label."""
    lines = textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)
