"""The tables of a check's report."""

import math
from collections.abc import Iterator, Sequence

from keras_pe.export.parity.presentation.groups import Group
from keras_pe.export.parity.reports.document import Mark, Outcome, Row, TextTable
from keras_pe.export.results import (
    AnyResults,
    CaseResult,
    CaseStatus,
    CheckResults,
    Comparison,
    LayerResult,
    RuntimeResult,
)

OUTCOMES = {
    CaseStatus.PASSED: Outcome.PASSED,
    CaseStatus.FAILED: Outcome.FAILED,
    CaseStatus.SKIPPED: Outcome.SKIPPED,
}

_RUNTIMES = ("runtime", "artifact", "result", "cases", "max |diff|", "allowed", "over floor")
_LAYERS = ("layer", "max |diff|", "allowed", "result", "tensor")
_COMPARISONS = (
    "case",
    "output",
    "shape",
    "result",
    "problem",
    "max |diff|",
    "allowed",
    "over floor",
    "relative",
    "ulp",
    "rms",
    "cosine",
    "values out",
    "argmax agrees",
    "worst at",
    "expected",
    "actual",
)
_MOST_LAYERS = 6


def number(value: float | None) -> str:
    """Returns a figure with two digits, "-" where there is none."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return "0" if value == 0 else f"{value:.1e}"


def runtimes(groups: Sequence[Group]) -> TextTable:
    """Returns the overview: a row for each group."""
    return TextTable("Runtimes", _RUNTIMES, tuple(map(_runtime, groups)), _failed(groups))


def _failed(groups: Sequence[Group]) -> tuple[int, ...]:
    return tuple(place for place, group in enumerate(groups) if not group.passed)


def _runtime(group: Group) -> Row:
    outcome, cases = Outcome.of(group.passed), str(len(group.first.cases))
    if group.worst is None:
        status = group.first.status if group.first.error else "nothing compared"
        return (group.name, group.artifact, Mark(outcome, f" ({status})"), cases, "-", "-", "-")
    worst = group.worst[2]
    if not math.isfinite(worst.max_abs_diff):
        return (group.name, group.artifact, Mark(outcome), cases, "-", "-", "-")
    figures = (number(worst.max_abs_diff), number(worst.tolerance), _ratio(worst))
    return (group.name, group.artifact, Mark(outcome), cases, *figures)


def _ratio(comparison: Comparison) -> str:
    return "-" if comparison.noise_ratio is None else f"{comparison.noise_ratio:.2g}"


def matrix(groups: Sequence[Group]) -> TextTable:
    """Returns artifacts down and runtimes across: the verdict of each, and what its worst output is off by.

    Without a row where it would say no more than the overview: for one artifact.
    """
    artifacts = tuple(dict.fromkeys(group.artifact for group in groups))
    names = tuple(dict.fromkeys(group.name for group in groups))
    cells = {(group.artifact, group.name): _verdict(group) for group in groups}
    rows = [(artifact, *(cells.get((artifact, name), "") for name in names)) for artifact in artifacts]
    at_fault = tuple(artifacts.index(group.artifact) for group in groups if not group.passed)
    return TextTable("Artifacts and runtimes", ("artifact", *names), tuple(rows) if len(rows) > 1 else (), at_fault)


def _verdict(group: Group) -> Mark:
    outcome = Outcome.of(group.passed)
    if group.first.error:
        return Mark(outcome, f", {group.first.status}")
    return Mark(outcome, "" if group.worst is None else f" {number(group.worst[2].max_abs_diff)}")


def layers(result: RuntimeResult) -> TextTable:
    """Returns each layer that was traced, in the model's order; in short those at fault with the one before each."""
    origins = tuple(place for place, layer in enumerate(result.layers) if layer.originates_here)
    shown = sorted({near for place in origins[:_MOST_LAYERS] for near in (place - 1, place) if near >= 0})
    passed_on = sum(layer.differs and not layer.originates_here for layer in result.layers)
    agreeing = sum(not layer.differs and layer.tensor is not None for layer in result.layers)
    absent = len(result.layers) - agreeing - len(origins) - passed_on
    note = f"{len(result.layers)} layers in all: {agreeing} agree, {len(origins)} at fault, {passed_on} after them"
    note += f", {absent} not in the file by themselves" if absent else ""
    return TextTable("Layers", _LAYERS, tuple(map(_layer, result.layers)), origins, tuple(shown), note)


def _layer(layer: LayerResult) -> Row:
    difference = "-" if layer.tensor is None and not layer.differs else number(layer.max_abs_diff)
    return (layer.layer, difference, number(layer.tolerance), layer_verdict(layer), layer.tensor or "-")


def layer_verdict(layer: LayerResult) -> str:
    """Returns what is known of a layer: whether its output differs, and whether the fault is its own."""
    if not layer.differs:
        return "agrees" if layer.tensor is not None else "not in the file by itself"
    return {True: "originates here", False: "follows", None: "differs"}[layer.originates_here]


def comparisons(result: RuntimeResult) -> TextTable:
    """Returns a row for each output of each case, or for a case without outputs its message; in short those that fail.

    The differences are in the outputs' own units.
    """
    rows = [row for case in result.cases for row in _case(case)]
    failed = tuple(place for place, (passed, _) in enumerate(rows) if not passed)
    shown = tuple(row for _, row in rows)
    return TextTable("Every output of every case", _COMPARISONS, shown, failed, failed, wide=True)


def _case(case: CaseResult) -> Iterator[tuple[bool, Row]]:
    """Yields whether each output of a case is not at fault, and its row."""
    for comparison in case.comparisons:
        yield comparison.passed, _comparison(case.name, comparison)
    if not case.comparisons:
        outcome = OUTCOMES[case.status]
        message = case.error or "skipped: the reference refuses it, and so does the runtime"
        yield outcome is not Outcome.FAILED, _filled(case.name, "", "", Mark(outcome), message)


def _filled(*cells: str | Mark) -> Row:
    """Returns a row whose other cells are empty."""
    return (*cells, *("",) * (len(_COMPARISONS) - len(cells)))


def _comparison(case: str, comparison: Comparison) -> Row:
    verdict = Mark(Outcome.of(comparison.passed))
    what = (case, comparison.output, f"{comparison.dtype} {comparison.shape}", verdict, comparison.problem_in_words)
    if comparison.worst_index is None and comparison.problem is not None:
        return _filled(*what)
    agreement = comparison.argmax_agreement
    return (
        *what,
        number(comparison.max_abs_diff),
        number(comparison.tolerance),
        _ratio(comparison),
        number(comparison.max_rel_diff),
        number(comparison.max_ulp),
        number(comparison.rms),
        "-" if comparison.cosine is None else f"{comparison.cosine:.6f}",
        f"{round(comparison.fraction_out_of_tolerance * comparison.count):,} of {comparison.count:,}",
        "-" if agreement is None else f"{agreement:.1%}",
        "-" if comparison.worst_index is None else str(list(comparison.worst_index)),
        "-" if comparison.truth is None else f"{comparison.truth:.9g}",
        "-" if comparison.actual is None else f"{comparison.actual:.9g}",
    )


def cases(found: CheckResults) -> TextTable:
    """Returns a row for each case."""
    rows = [
        (
            case.name,
            ", ".join(f"{name}: {what}" for name, what in case.inputs.items()),
            case.purpose + (f" (refused: {case.error})" if case.error else ""),
        )
        for case in found.cases
    ]
    return TextTable("Cases", ("case", "inputs", "purpose"), tuple(rows))


def appendix(found: AnyResults, *others: tuple[str, str]) -> tuple[TextTable, TextTable]:
    """Returns what took part in a check, and its date with the hashes of the files that it looked at.

    Args:
        found: The check.
        *others: What stands with the versions: what it is, and its value.
    """
    date = (("date", found.date),) if found.date else ()
    return (
        TextTable("Versions", ("package", "version"), (*found.versions.items(), *others)),
        TextTable("Date and files", ("file", "SHA-256"), (*date, *found.files.items())),
    )
