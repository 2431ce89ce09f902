"""One output of one runtime compared with the reference's, for the rows of a batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.comparison.compare import differences
from keras_pe.export.comparison.law import is_float
from keras_pe.export.parity.statistics.decisions import Decision, last_axis_max
from keras_pe.export.parity.statistics.histogram import Histogram
from keras_pe.export.parity.statistics.runtime_statistics import OutputStatistics
from keras_pe.export.results import Array

MAX_CLASSES = 256
"""Up to so many classes a change is counted from which class to which, above from which class only."""


@dataclass(frozen=True)
class RowVerdicts:
    """What `measure_output` says of each row, beside the statistics.

    Attributes:
        failed: Whether the row fails: a decision changed, a NaN or infinity clashes, or the tolerance is exceeded.
        clash: Whether a NaN or an infinity stands against something else.
        error: The largest finite difference.
    """

    failed: Array
    clash: Array
    error: Array


def measure_output(
    expected: Array,
    actual: Array,
    truth: Array | None = None,
    *,
    allowed: float | Array | None,
    decision: Decision | None,
    noise: float,
) -> tuple[OutputStatistics, RowVerdicts]:
    """Compares one output for the rows of a batch.

    Args:
        expected: The reference's array `(rows, ...)`.
        actual: The runtime's, of the same shape.
        truth: What the differences are measured against, where that is not the reference's array.
        allowed: The absolute difference that is allowed, of all values or by row or value; None where decisions alone
            count. What is not a float must be equal.
        decision: How the output decides, None where it does not.
        noise: A changed decision is a tie where its margin is no larger.
    """
    rows = len(expected)
    if is_float(expected.dtype):
        absolute, _, are_finite = differences(expected, actual, truth)[1:]
    else:
        absolute, are_finite, allowed, decision = expected != actual, True, 0.0, None
    difference: Array = absolute.reshape(rows, -1)
    clash: Array = np.zeros(rows, bool)
    nonfinite: dict[str, Any] = {}
    if not are_finite:
        clash = np.any(np.isinf(difference), axis=1)
        difference = np.where(np.isinf(difference), 0.0, difference)
        nonfinite = _count_nonfinite("expected", expected) | _count_nonfinite("actual", actual)
    largest = last_axis_max(difference).astype(np.float64, copy=False)
    out = clash
    if isinstance(allowed, np.ndarray):
        out = clash | (difference > allowed.reshape(rows, -1)).any(axis=1)
    elif allowed is not None:
        out = clash | (largest > allowed)
    changed: Array = np.zeros(rows, bool)
    decided: dict[str, Any] = {}
    if decision is not None:
        changed, decided = _compare_decisions(expected, actual, difference.reshape(expected.shape), decision, noise)
    statistics = OutputStatistics(
        rows=rows,
        values=expected.size,
        clashes=int(clash.sum()),
        max_abs_diff=float(largest.max(initial=0.0)),
        errors=Histogram.of(largest),
        out_of_tolerance=int(out.sum()),
        **nonfinite,
        **decided,
    )
    return statistics, RowVerdicts(out | changed, clash, largest)


def _count_nonfinite(side: str, array: Array) -> dict[str, int]:
    """Returns how many values are NaN, and how many infinite, by the name of the count."""
    wide = array.astype(np.float64, copy=False)
    return {f"{side}_nan": int(np.isnan(wide).sum()), f"{side}_inf": int(np.isinf(wide).sum())}


def _compare_decisions(
    expected: Array, actual: Array, difference: Array, decision: Decision, noise: float
) -> tuple[Array, dict[str, Any]]:
    """Returns which rows changed, and the fields of the statistics that are about decisions."""
    before, after = decision.decide(expected), decision.decide(actual)
    differ = decision.differ(before, after)
    margins = decision.margins(expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = decision.errors(difference) / margins
    # Nothing taken of no margin is 0; two infinities have no distance, and their row is a clash or equal.
    shares = np.where(np.isnan(shares), 0.0, shares)
    changed: Array = np.any(differ, axis=1)
    fields: dict[str, Any] = {
        "decisions": differ.size,
        "margins": Histogram.of(last_axis_max(shares)),
    }
    if changed.any():
        sure = (differ & ~(margins <= noise)).any(axis=1)
        fields |= {
            "changed_decisions": int(differ.sum()),
            "changed": int(changed.sum()),
            "ties": int((changed & ~sure).sum()),
            "classes": _count_classes(expected, actual, differ, decision),
        }
    return changed, fields


def _count_classes(expected: Array, actual: Array, differ: Array, decision: Decision) -> dict[tuple[int, int], int]:
    by_largest = decision if decision.kind == "threshold" else Decision("argmax")
    many = decision.kind != "threshold" and expected.shape[-1] > MAX_CLASSES
    before, after = by_largest.decide(expected)[differ], by_largest.decide(actual)[differ]
    pairs = np.stack([before, np.full_like(before, -1, dtype=np.int64) if many else after], axis=1).astype(np.int64)
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    return {(int(one), int(other)): int(count) for (one, other), count in zip(found, counts, strict=True)}
