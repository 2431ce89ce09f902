"""One output of one runtime compared with the reference's, for the rows of a batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.parity.statistics.decisions import Decision
from keras_pe.export.parity.statistics.histogram import Histogram
from keras_pe.export.parity.statistics.output import OutputStatistics
from keras_pe.export.parity.statistics.reduction import last_axis_max
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
    *,
    allowed: float | Array | None,
    decision: Decision | None,
    noise: float,
    rtol: float = 0.0,
) -> tuple[OutputStatistics, RowVerdicts]:
    """Compares one output for the rows of a batch.

    Args:
        expected: The reference's array `(rows, ...)`.
        actual: The runtime's, of the same shape.
        allowed: The absolute difference that is allowed, in all rows or in each; None where decisions alone count. What
            is not a float must be equal.
        decision: How the output decides, None where it does not.
        noise: A changed decision is a tie where its margin is no larger.
        rtol: What is allowed beside, as a share of the magnitude of each value.
    """
    if expected.dtype.kind not in "fV" and expected.dtype.name != "bfloat16":
        return _measure_exact(expected, actual)
    difference, clash, nonfinite = _differences(expected, actual)
    largest = last_axis_max(difference)
    beyond = largest
    if rtol:
        magnitude = np.abs(expected.astype(np.float64).reshape(difference.shape))
        beyond = last_axis_max(difference - rtol * np.where(np.isfinite(magnitude), magnitude, 0.0))
    out = clash if allowed is None else clash | (beyond > allowed)
    failed = out
    decided: dict[str, Any] = {}
    if decision is not None:
        changed, decided = _compare_decisions(expected, actual, difference.reshape(expected.shape), decision, noise)
        failed = out | changed
    statistics = OutputStatistics(
        rows=len(expected),
        values=expected.size,
        clashes=int(clash.sum()),
        max_abs_diff=float(largest.max(initial=0.0)),
        errors=Histogram.of(largest),
        out_of_tolerance=int(out.sum()),
        **nonfinite,
        **decided,
    )
    return statistics, RowVerdicts(failed, clash, largest)


def _measure_exact(expected: Array, actual: Array) -> tuple[OutputStatistics, RowVerdicts]:
    """Compares values that must be equal."""
    differs = (expected != actual).reshape(len(expected), -1).any(axis=1)
    error = differs.astype(np.float64)
    statistics = OutputStatistics(
        rows=len(expected),
        values=expected.size,
        max_abs_diff=float(error.max(initial=0.0)),
        errors=Histogram.of(error),
        out_of_tolerance=int(differs.sum()),
    )
    return statistics, RowVerdicts(differs, np.zeros(len(expected), bool), error)


def _differences(expected: Array, actual: Array) -> tuple[Array, Array, dict[str, Any]]:
    """Returns absolute differences `(rows, values)`, 0 for what is not finite; which rows clash; the counts of it."""
    rows = len(expected)
    target = expected.astype(np.float64, copy=False).reshape(rows, -1)
    values = actual.astype(np.float64, copy=False).reshape(rows, -1)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = values - target
    np.abs(difference, out=difference)
    if np.isfinite(difference.max(initial=0.0)):  # a NaN is the largest of all
        return difference, np.zeros(rows, bool), {}
    bad = ~np.isfinite(difference)
    same = (values == target) | (np.isnan(values) & np.isnan(target))
    counts = {
        "expected_nan": int(np.isnan(target).sum()),
        "expected_inf": int(np.isinf(target).sum()),
        "actual_nan": int(np.isnan(values).sum()),
        "actual_inf": int(np.isinf(values).sum()),
    }
    return np.where(bad, 0.0, difference), (bad & ~same).any(axis=1), counts


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
