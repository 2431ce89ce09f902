"""Compares the decisions of an output in each row of a batch: changed decisions, their classes, and their accuracy."""

from typing import Any

import numpy as np

from keras_pe.export.comparison.output_decisions import Decision, last_axis_max
from keras_pe.export.parity.data.source import DataError
from keras_pe.export.parity.statistics.histogram import Histogram
from keras_pe.export.results import Array

MAX_CLASSES = 256
"""Changes are counted by pairs of classes up to this number of classes, and by the expected class alone above it."""


def compare_decisions(
    expected: Array, actual: Array, difference: Array, decision: Decision, noise: float
) -> tuple[Array, dict[str, Any]]:
    """Returns which rows changed, and the statistics' fields about decisions."""
    before, after = decision.decide(expected), decision.decide(actual)
    differ = decision.differ(before, after)
    margins = decision.margins(expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = decision.errors(difference) / margins
    # An error of 0 at a margin of 0 takes none of it. Infinities also give NaN; such rows are equal or count as a
    # clash.
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


def count_right(expected: Array, actual: Array, labels: Array, decision: Decision, column: str) -> dict[str, Any]:
    """Returns the number of labeled decisions, and how many agree with their label, by the field of the statistics.

    Raises:
        DataError: If the labels are not classes of the output.
    """
    try:
        classes = decision.class_labels(labels, expected)
    except ValueError as error:
        raise DataError(
            f"Column {column!r} must have the number of a class for each decision, one-hot rows, or 0 and 1 for a "
            f"threshold. Received: {error}."
        ) from error
    has_label = classes >= 0
    before, after = (decision.is_right(decision.decide(each), classes) & has_label for each in (expected, actual))
    return {"labels": int(has_label.sum()), "expected_right": int(before.sum()), "actual_right": int(after.sum())}


def _count_classes(expected: Array, actual: Array, differ: Array, decision: Decision) -> dict[tuple[int, int], int]:
    by_largest = decision if decision.kind == "threshold" else Decision("argmax")
    many = decision.kind != "threshold" and expected.shape[-1] > MAX_CLASSES
    before, after = by_largest.decide(expected)[differ], by_largest.decide(actual)[differ]
    pairs = np.stack([before, np.full_like(before, -1, dtype=np.int64) if many else after], axis=1).astype(np.int64)
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    return {(int(one), int(other)): int(count) for (one, other), count in zip(found, counts, strict=True)}
