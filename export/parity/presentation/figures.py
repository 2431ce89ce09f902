"""The figures of a check's report: its tables, and its pictures of errors by position, by size and by layer."""

import math
from collections.abc import Iterator, Sequence

from keras_pe.export.artifacts.quantized_tensors import COLUMNS, quantization_rows
from keras_pe.export.parity.reports.document import (
    Limit,
    Mark,
    Outcome,
    Picture,
    PictureAxis,
    Points,
    Row,
    Steps,
    TextTable,
)
from keras_pe.export.results import (
    CaseResult,
    CaseStatus,
    CheckResults,
    Comparison,
    ErrorProfile,
    LayerResult,
    RuntimeResult,
    Stage,
)

OUTCOMES = {
    CaseStatus.PASSED: Outcome.PASSED,
    CaseStatus.FAILED: Outcome.FAILED,
    CaseStatus.SKIPPED: Outcome.SKIPPED,
}

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
REFUSED_BY_BOTH = "the reference and the runtime refuse this case"
_UNIT = "in the output's own unit"


def number(value: float | None) -> str:
    """Returns a figure with two digits, "-" for None."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return "0" if value == 0 else f"{value:.1e}"


def ratio(comparison: Comparison) -> str:
    """Returns how many times the noise floor a difference is."""
    return "-" if comparison.noise_ratio is None else f"{comparison.noise_ratio:.2g}"


def largest_figures(compared: Sequence[Comparison]) -> tuple[str, str, str]:
    """Returns the largest difference of some comparisons, as it is, as a share of what is allowed and over the floor.

    Each figure is the largest by itself: the three may be of different cases.
    """
    if not compared:
        return ("-", "-", "-")
    floors = [each.noise_ratio for each in compared if each.noise_ratio is not None]
    shares = [each.tolerance_ratio for each in compared]
    over = "-" if not floors else "∞" if math.isinf(max(floors)) else f"{max(floors):.2g}"
    return number(max(each.max_abs_diff for each in compared)), number(max(shares)), over


def layers(result: RuntimeResult) -> TextTable:
    """Returns each layer that was traced, in the model's order; in short those at fault with the one before each."""
    origins = tuple(place for place, layer in enumerate(result.layers) if layer.originates_here)
    shown = sorted({near for place in origins[:_MOST_LAYERS] for near in (place - 1, place) if near >= 0})
    passed_on = sum(layer.differs and not layer.originates_here for layer in result.layers)
    agreeing = sum(not layer.differs and layer.tensor is not None for layer in result.layers)
    absent = len(result.layers) - agreeing - len(origins) - passed_on
    note = f"{len(result.layers)} layers in all: {agreeing} agree, {len(origins)} at fault, {passed_on} after them"
    note += f", {absent} without a tensor in the file" if absent else ""
    return TextTable("Layers", _LAYERS, tuple(map(_layer, result.layers)), origins, tuple(shown), note)


def _layer(layer: LayerResult) -> Row:
    difference = "-" if layer.tensor is None and not layer.differs else number(layer.max_abs_diff)
    return (layer.layer, difference, number(layer.tolerance), _layer_verdict(layer), layer.tensor or "-")


def _layer_verdict(layer: LayerResult) -> str:
    if not layer.differs:
        return "agrees" if layer.tensor is not None else "without a tensor in the file"
    return {True: "originates here", False: "follows", None: "differs"}[layer.originates_here]


def quantized_tensors(result: RuntimeResult) -> TextTable:
    """Returns a row for each weight and value that the artifact has as integers with a scale."""
    return TextTable("Quantized tensors", COLUMNS, quantization_rows(result.quantized), excerpt=())


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
        message = case.error or f"skipped: {REFUSED_BY_BOTH}"
        yield outcome is not Outcome.FAILED, _make_row(case.name, "", "", Mark(outcome), message)


def _make_row(*cells: str | Mark) -> Row:
    """Returns a row whose other cells are empty."""
    return (*cells, *("",) * (len(_COMPARISONS) - len(cells)))


def _comparison(case: str, comparison: Comparison) -> Row:
    verdict = Mark(Outcome.of(comparison.passed))
    what = (case, comparison.output, f"{comparison.dtype} {comparison.shape}", verdict, comparison.problem_in_words)
    if comparison.worst_index is None and comparison.problem is not None:
        return _make_row(*what)
    agreement = comparison.argmax_agreement
    return (
        *what,
        number(comparison.max_abs_diff),
        number(comparison.tolerance),
        ratio(comparison),
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


def times(found: CheckResults, before: Sequence[Stage] = ()) -> TextTable:
    """Returns the stages of a check with their seconds, in order; the longest is marked."""
    stages = [*before, *found.stages]
    longest = max(stages, key=lambda stage: stage.seconds, default=None)
    rows: list[Row] = []
    for stage in stages:
        runtime = "" if stage.runtime_seconds is None else f"{stage.runtime_seconds:.2f}"
        mark = "longest" if stage is longest else ""
        rows.append((stage.name, f"{stage.seconds:.2f}", f"{stage.processor_seconds:.2f}", runtime, mark))
    seconds, processor = sum(s.seconds for s in stages), sum(s.processor_seconds for s in stages)
    inside = sum(each.seconds for each in found.results)
    rows.append(("in all", f"{seconds:.2f}", f"{processor:.2f}", f"{inside:.2f}", ""))
    return TextTable("Times", ("stage", "seconds", "processor", "in the runtime", ""), tuple(rows))


def pictures(result: RuntimeResult) -> Iterator[Picture]:
    """Yields the pictures of the comparison that was profiled, and of the layers."""
    profile = result.profile
    if profile is not None:
        compared = {(case.name, each.output): each for case in result.cases for each in case.comparisons}
        comparison = compared[profile.case, profile.output]
        yield by_position(profile, comparison)
        yield by_size(profile, comparison)
    if result.layers:
        yield by_layer(result)


def by_position(profile: ErrorProfile, comparison: Comparison) -> Picture:
    """Returns the largest error at each position, with Keras' own error and what is allowed."""
    edges = tuple(start - 0.5 for start in (*profile.starts, profile.size))  # a single position stands at its tick
    own = (Steps("Keras itself", edges, profile.noise, "noise", filled=False),) if profile.noise else ()
    return Picture(
        f"Error by position, {_place(profile)}",
        f"Largest error {number(comparison.max_abs_diff)}, allowed {number(comparison.tolerance)}.",
        PictureAxis(f"position (index along axis {profile.axis or 0})", "linear"),
        PictureAxis(f"largest |difference|\n({_UNIT})", "log"),
        (Steps("this runtime", edges, profile.errors), *own),
        (Limit("allowed", comparison.tolerance, "y"),),
    )


def by_size(profile: ErrorProfile, comparison: Comparison) -> Picture:
    """Returns how many values differ by how much; nothing is drawn where none has a finite difference other than 0."""
    edges = tuple(10.0**edge for edge in profile.log10_bin_edges)
    drawn = (Steps("values of this runtime", edges, profile.counts),) if profile.counts else ()
    if profile.equal == comparison.count:
        message = "All values are equal."
    elif profile.equal:
        message = f"{profile.equal:,} of {comparison.count:,} values are equal."
    else:
        message = f"All {comparison.count:,} values differ."
    if profile.nonfinite:
        message += f" {profile.nonfinite:,} are NaN or infinite on one side only."
    return Picture(
        f"Error histogram, {_place(profile)}",
        message,
        PictureAxis(f"|difference| ({_UNIT})", "log"),
        PictureAxis("number of values", "count"),
        drawn,
        (Limit("allowed", comparison.tolerance, "x"),),
    )


def by_layer(result: RuntimeResult) -> Picture:
    """Returns each layer's error beside what it may be, in the model's order.

    A layer that is not in the file by itself has none.
    """
    first = result.first_layer_that_differs
    message = f"The first layer whose output differs is {first!r}." if first else "No layer's output differs."
    agree = [not layer.differs and layer.tensor is not None for layer in result.layers]
    begin = [layer.originates_here is True for layer in result.layers]
    follow = [layer.differs and not layer.originates_here for layer in result.layers]
    limits = tuple(layer.tolerance for layer in result.layers)
    drawn = (
        Points("allowed", limits, tuple(map(float, range(len(limits)))), "bar", "limit"),
        Points("agrees", *_places(result.layers, agree), "dot", "error"),
        Points("follows", *_places(result.layers, follow), "cross", "noise"),
        Points("originates here", *_places(result.layers, begin), "star", "limit"),
    )
    return Picture(
        "Layer by layer",
        message + " Left end: no difference. Right end: no finite difference.",
        PictureAxis("largest |difference| of the layer's\noutput (in its own unit)", "log"),
        PictureAxis("", "names", tuple(layer.layer for layer in result.layers)),
        tuple(each for each in drawn if each.x),
    )


def _places(layers: Sequence[LayerResult], chosen: Sequence[bool]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the errors of the chosen layers, and their numbers."""
    found = [
        (layer.max_abs_diff, float(i)) for i, (layer, is_one) in enumerate(zip(layers, chosen, strict=True)) if is_one
    ]
    return tuple(error for error, _ in found), tuple(place for _, place in found)


def _place(profile: ErrorProfile) -> str:
    return f"output {profile.output!r} of the case {profile.case!r}"
