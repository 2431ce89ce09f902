"""What stands in the cells of a report's tables, in every form that has tables."""

import math
from collections.abc import Iterator

from keras_pe.export.results import Comparison, LayerResult, ParityReport, RuntimeResult

Row = tuple[str, ...]

COMPARISON_HEADER: Row = (
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
LAYER_HEADER: Row = ("layer", "max |diff|", "allowed", "result", "tensor")
CASE_HEADER: Row = ("case", "inputs", "purpose")


def number(value: float | None) -> str:
    """Returns a figure with two digits, "-" where there is none."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return "0" if value == 0 else f"{value:.1e}"


def comparison_rows(result: RuntimeResult) -> Iterator[Row]:
    """Returns a row for each output of each case, or for a case without outputs its message."""
    for case in result.cases:
        for comparison in case.comparisons:
            yield _row(case.name, comparison)
        if not case.comparisons:
            message = case.error or "skipped: the reference refuses it, and so does the runtime"
            yield _filled(case.name, "", "", "FAILED" if case.status == "failed" else case.status, message)


def _filled(*values: str) -> Row:
    """Returns a row whose other cells are empty."""
    return (*values, *("",) * (len(COMPARISON_HEADER) - len(values)))


def _row(case: str, comparison: Comparison) -> Row:
    verdict = "passed" if comparison.passed else "FAILED"
    what = (case, comparison.output, f"{comparison.dtype} {comparison.shape}", verdict, comparison.problem or "")
    if comparison.worst_index is None and comparison.problem is not None:
        return _filled(*what)
    agreement = comparison.argmax_agreement
    return (
        *what,
        number(comparison.max_abs_diff),
        number(comparison.tolerance),
        "-" if comparison.noise_ratio is None else f"{comparison.noise_ratio:.2g}",
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


def layer_rows(result: RuntimeResult) -> Iterator[Row]:
    """Returns a row for each layer that was traced, in the model's order."""
    for layer in result.layers:
        yield (*layer_cells(layer), layer.tensor or "-")


def layer_cells(layer: LayerResult) -> Row:
    """Returns a layer's name, how far its output is off, what is allowed, and the verdict."""
    difference = "-" if layer.tensor is None and not layer.differs else number(layer.max_abs_diff)
    return (layer.layer, difference, number(layer.tolerance), layer_verdict(layer))


def layer_verdict(layer: LayerResult) -> str:
    """Returns what is known of a layer: whether its output differs, and whether the fault is its own."""
    if not layer.differs:
        return "agrees" if layer.tensor is not None else "not in the file by itself"
    return {True: "originates here", False: "follows", None: "differs"}[layer.originates_here]


def case_rows(report: ParityReport) -> Iterator[Row]:
    """Returns a row for each case."""
    for case in report.cases:
        inputs = ", ".join(f"{name}: {what}" for name, what in case.inputs.items())
        yield (case.name, inputs, case.purpose + (f" (refused: {case.error})" if case.error else ""))
