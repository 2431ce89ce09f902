"""How one output of one runtime differs over many rows: counts, maxima and histograms, all of which merge exactly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from keras_pe.export.parity.dataset.statistics.decisions import Decision
from keras_pe.export.parity.dataset.statistics.histogram import Histogram
from keras_pe.export.parity.dataset.statistics.reduction import last_axis_max
from keras_pe.export.parity.results import Array

MAX_CLASSES = 256
"""Up to so many classes a change is counted from which class to which, above from which class only."""


@dataclass(frozen=True)
class OutputStatistics:
    """One output over the rows of a shard, or of many.

    Attributes:
        rows: Rows that the runtime answered.
        values: Values compared.
        expected_nan: NaN among the reference's values.
        expected_inf: Infinities among the reference's values.
        actual_nan: NaN among the runtime's values.
        actual_inf: Infinities among the runtime's values.
        clashes: Rows in which a NaN or an infinity stands against something else.
        max_abs_diff: The largest finite difference.
        errors: Of each row the largest finite difference.
        out_of_tolerance: Rows whose largest difference is more than is allowed, clashes among them.
        decisions: Decisions taken: one or more a row.
        changed_decisions: Decisions that are others in the runtime.
        changed: Rows with such a decision.
        ties: Rows whose changed decisions all had a margin within the noise: the reference itself is not sure of them.
        classes: How many decisions changed, by the expected and the actual class; the actual one is -1 where there are
            more than `MAX_CLASSES`.
        margins: Of each row the largest share that the error takes of a decision's margin. Below 1 none changes.
    """

    rows: int = 0
    values: int = 0
    expected_nan: int = 0
    expected_inf: int = 0
    actual_nan: int = 0
    actual_inf: int = 0
    clashes: int = 0
    max_abs_diff: float = 0.0
    errors: Histogram = field(default_factory=Histogram)
    out_of_tolerance: int = 0
    decisions: int = 0
    changed_decisions: int = 0
    changed: int = 0
    ties: int = 0
    classes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    margins: Histogram = field(default_factory=Histogram)

    def merge(self, other: Self) -> Self:
        """Returns the statistics of both, which must have no row in common."""
        pairs = sorted(self.classes.keys() | other.classes.keys())
        merged: dict[str, Any] = {
            "max_abs_diff": max(self.max_abs_diff, other.max_abs_diff),
            "errors": self.errors.merge(other.errors),
            "classes": {pair: self.classes.get(pair, 0) + other.classes.get(pair, 0) for pair in pairs},
            "margins": self.margins.merge(other.margins),
        }
        counts = [name for name in self.__dataclass_fields__ if name not in merged]
        return type(self)(**merged, **{name: getattr(self, name) + getattr(other, name) for name in counts})

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON's plain values."""
        plain = dict(vars(self))
        plain["errors"] = [list(item) for item in sorted(self.errors.counts.items())]
        plain["margins"] = [list(item) for item in sorted(self.margins.counts.items())]
        plain["classes"] = [[*pair, count] for pair, count in sorted(self.classes.items())]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Returns what `to_dict` was called on."""
        rest = {name: value for name, value in plain.items() if name not in ("errors", "margins", "classes")}
        return cls(
            **rest,
            errors=Histogram(dict(plain["errors"])),
            margins=Histogram(dict(plain["margins"])),
            classes={(expected, actual): count for expected, actual, count in plain["classes"]},
        )


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
    expected: Array, actual: Array, *, allowed: float | Array | None, decision: Decision | None, noise: float
) -> tuple[OutputStatistics, RowVerdicts]:
    """Compares one output for the rows of a batch.

    Args:
        expected: The reference's array `(rows, ...)`.
        actual: The runtime's, of the same shape.
        allowed: The absolute difference that is allowed, in all rows or in each; None where decisions alone count. What
            is not a float must be equal.
        decision: How the output decides, None where it does not.
        noise: A changed decision is a tie where its margin is no larger.
    """
    rows = len(expected)
    if expected.dtype.kind not in "fV" and expected.dtype.name != "bfloat16":
        differs = (expected != actual).reshape(rows, -1).any(axis=1)
        error = differs.astype(np.float64)
        statistics = OutputStatistics(
            rows=rows,
            values=expected.size,
            max_abs_diff=float(error.max(initial=0.0)),
            errors=Histogram.of(error),
            out_of_tolerance=int(differs.sum()),
        )
        return statistics, RowVerdicts(differs, np.zeros(rows, bool), error)
    target = expected.astype(np.float64, copy=False).reshape(rows, -1)
    values = actual.astype(np.float64, copy=False).reshape(rows, -1)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = values - target
    np.abs(difference, out=difference)
    largest = last_axis_max(difference)
    clash = np.zeros(rows, bool)
    nonfinite: dict[str, Any] = {}
    if not np.isfinite(largest).all():
        same = (values == target) | (np.isnan(values) & np.isnan(target))
        bad = ~np.isfinite(difference)
        clash = (bad & ~same).any(axis=1)
        difference = np.where(bad, 0.0, difference)
        largest = last_axis_max(difference)
        nonfinite = {
            "expected_nan": int(np.isnan(target).sum()),
            "expected_inf": int(np.isinf(target).sum()),
            "actual_nan": int(np.isnan(values).sum()),
            "actual_inf": int(np.isinf(values).sum()),
        }
    out = clash if allowed is None else clash | (largest > allowed)
    failed = out
    decided: dict[str, Any] = {}
    if decision is not None:
        changed, decided = _compare_decisions(expected, actual, difference.reshape(expected.shape), decision, noise)
        failed = out | changed
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
    return statistics, RowVerdicts(failed, clash, largest)


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
