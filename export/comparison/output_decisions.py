"""The decision that a user derives from an output: the largest value, the k largest, or a side of a threshold."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.results import Array

_SHORT = 64  # for shorter rows, NumPy's loop over each row is slower than a transposed copy


def last_axis_max(values: Array) -> Array:
    """Returns the maximum along the last axis of `(..., n)` floats: NaN if a value is NaN, 0 if n is 0."""
    count = values.shape[-1]
    if not 0 < count < _SHORT:
        whole: Array = values.max(axis=-1) if count else np.zeros(values.shape[:-1])
        return whole
    across: Array = np.ascontiguousarray(values.reshape(-1, count).T).max(axis=0)
    return across.reshape(values.shape[:-1])


@dataclass(frozen=True)
class Decision:
    """The decision rule of an output.

    Attributes:
        kind: "argmax" and "top_k" decide along the last axis, "threshold" for each value.
        k: Number of classes for "top_k".
        threshold: Limit for "threshold": the decision is whether the value is larger.
    """

    kind: Literal["argmax", "top_k", "threshold"]
    k: int = 1
    threshold: float = 0.5

    def __str__(self) -> str:
        return {"argmax": "argmax", "top_k": f"top {self.k}", "threshold": f"> {self.threshold:g}"}[self.kind]

    def decides(self, values: Array) -> bool:
        """Whether the decision has more than one possible outcome. The largest of a single value has one."""
        return self.kind == "threshold" or (values.ndim > 1 and values.shape[-1] > self.k)

    def decide(self, values: Array) -> Array:
        """Returns the decisions of each row: `(rows, decisions)`, or `(rows, decisions, k)` for "top_k"."""
        rows = len(values)
        if self.kind == "threshold":
            decided: Array = values.reshape(rows, -1) > self.threshold
            return decided
        flat = values.reshape(rows, -1, values.shape[-1])
        if self.kind == "argmax":
            largest: Array = flat.argmax(axis=-1)
            return largest
        first: Array = np.argsort(-flat, axis=-1, kind="stable")[..., : self.k]
        return np.sort(first, axis=-1)

    def differ(self, expected: Array, actual: Array) -> Array:
        """Returns which decisions differ, `(rows, decisions)`, for two results of `decide`."""
        out: Array = expected != actual
        together: Array = np.any(out, axis=-1) if self.kind == "top_k" else out
        return together

    def is_right(self, decided: Array, labels: Array) -> Array:
        """Returns which results of `decide` agree with labels `(rows, decisions)`."""
        found: Array = (decided == labels[..., np.newaxis]).any(axis=-1) if self.kind == "top_k" else decided == labels
        return found

    def class_labels(self, labels: Array, values: Array) -> Array:
        """Returns labels as class indices, `(rows, decisions)`.

        Args:
            labels: Class indices, one-hot rows, or 0 and 1 for a threshold. Negative labels stay.
            values: The output that decides.

        Raises:
            ValueError: With a description of the labels, if they are not classes or not one for each decision.
        """
        if labels.dtype.kind not in "fiub":
            raise ValueError("texts")
        count = 2 if self.kind == "threshold" else values.shape[-1]
        if self.kind != "threshold" and labels.shape == values.shape:
            labels = labels.argmax(axis=-1)
        decisions = values[0].size // (1 if self.kind == "threshold" else count)
        if labels.size != len(values) * decisions:
            raise ValueError(f"labels of shape {labels.shape[1:]} in each row")
        flat = labels.reshape(len(values), decisions)
        with np.errstate(invalid="ignore"):
            whole: Array = flat.astype(np.int64)
        wrong = flat[(whole != flat) | (whole >= count)]
        if wrong.size:
            raise ValueError(f"{wrong[0]}, where there are {count} classes")
        return whole

    def margins(self, values: Array) -> Array:
        """Returns the margin of each decision to another one, `(rows, decisions)`, in float64."""
        rows = len(values)
        wide = values.astype(np.float64, copy=False)
        if self.kind == "threshold":
            distances: Array = np.abs(wide.reshape(rows, -1) - self.threshold)
            return distances
        flat = wide.reshape(rows, -1, values.shape[-1])
        count = flat.shape[-1]
        if self.k >= count:
            return np.full(flat.shape[:2], np.inf)
        if self.k == 1:  # two passes for the largest value are several times faster than a partition
            first = flat.argmax(axis=-1)[..., np.newaxis]
            others = flat.copy()
            np.put_along_axis(others, first, -np.inf, axis=-1)
            lead: Array = np.take_along_axis(flat, first, axis=-1)[..., 0] - last_axis_max(others)
            return lead
        ordered = np.partition(flat, (count - self.k - 1, count - self.k), axis=-1)
        gap: Array = ordered[..., count - self.k] - ordered[..., count - self.k - 1]
        return gap

    def margin_losses(self, expected: Array, actual: Array) -> Array:
        """Returns the lost share of the margin of each decision, `(rows, decisions)`. The decision changes above 1.

        Several largest values have no single margin: the share is at least what the error can take.
        """
        margins = self.margins(expected)
        wide = actual.astype(np.float64)
        if self.kind == "threshold":
            sides = np.where(self.decide(expected), 1.0, -1.0)
            after = sides * (wide.reshape(margins.shape) - self.threshold)
        elif self.kind == "argmax":
            flat = wide.reshape(*margins.shape, actual.shape[-1])
            first = self.decide(expected)[..., np.newaxis]
            own = np.take_along_axis(flat, first, axis=-1)[..., 0]
            np.put_along_axis(flat, first, -np.inf, axis=-1)
            after = own - last_axis_max(flat)
        else:
            after = margins - self.errors(np.abs(wide - expected))
        lost: Array = margins - after
        return np.divide(lost, margins, out=np.where(lost > 0, 1.0, 0.0), where=margins > 0)

    def errors(self, difference: Array) -> Array:
        """Returns how much of a margin the difference `|actual - expected|` can take, `(rows, decisions)`.

        Two values of a row can move toward each other, so their errors add up. A threshold is constant.
        """
        rows = len(difference)
        if self.kind == "threshold":
            return difference.reshape(rows, -1)
        largest: Array = 2.0 * last_axis_max(difference.reshape(rows, -1, difference.shape[-1]))
        return largest


def parse_decision(given: str | float | None) -> Decision | None:
    """Returns the decision for "argmax", "top5", a threshold or its text; None for None and "none".

    Raises:
        ValueError: If the value is not a decision.
    """
    if given is None or given == "none":
        return None
    if given == "argmax":
        return Decision("argmax")
    if isinstance(given, str) and (match := re.fullmatch(r"top_?([1-9]\d*)", given)):
        return Decision("top_k", k=int(match[1]))
    try:
        threshold = float(given)
    except ValueError:
        threshold = float("nan")
    if not np.isfinite(threshold):
        raise ArgValueError("decisions", f"must be 'argmax', 'top5', a threshold or 'none'. Received: {given!r}.")
    return Decision("threshold", threshold=threshold)


def infer_decision(values: Array) -> Decision | None:
    """Returns the decision rule of an output as far as its values show it; None if they do not.

    Rows of probabilities that add up to 1 decide by the largest; one probability a row decides by 0.5. Other outputs,
    such as logits, look like any numbers, so the user must state their decision.

    Args:
        values: The output for a sample of rows.
    """
    if values.ndim < 2 or values.dtype.kind != "f" or not values.size or not np.isfinite(values).all():
        return None
    if values.min() < 0 or values.max() > 1:
        return None
    if values.shape[-1] == 1:
        return Decision("threshold") if values.ndim == 2 else None
    sums = values.astype(np.float64).sum(axis=-1)
    return Decision("argmax") if np.abs(sums - 1).max() < 1e-2 else None


@dataclass(frozen=True)
class DecisionCount:
    """The decisions of an output in one comparison.

    Attributes:
        total: Number of decisions.
        changed: Number of decisions that differ between the two sides.
        ties: Number of changed decisions whose margin rounding can close.
    """

    total: int
    changed: int
    ties: int = 0


def count_decisions(expected: Array, actual: Array, rounding: float | Array) -> DecisionCount | None:
    """Counts the decisions that changed; returns None if the output does not decide.

    Rows of several scores from 0 to 1 decide by the best one, whether or not they add up to 1. Rows with a NaN or an
    infinity do not count.

    Args:
        expected: The expected output, `(rows, ...)`.
        actual: The actual output, of the same shape.
        rounding: The absolute difference that rounding explains, for all values or for each.
    """
    if expected.ndim < 2 or not expected.size:
        return None
    bounds = np.broadcast_to(rounding, expected.shape)
    is_finite = np.isfinite(expected) & np.isfinite(actual)
    if not is_finite.all():
        rows = is_finite.reshape(len(expected), -1).all(axis=1)
        expected, actual, bounds = expected[rows], actual[rows], bounds[rows]
    decision = infer_decision(expected)
    if decision is None and expected.ndim == 2 and expected.size and 0 <= expected.min() <= expected.max() <= 1:
        decision = Decision("argmax")
    if decision is None or not decision.decides(expected):
        return None
    differ = decision.differ(decision.decide(expected), decision.decide(actual))
    if not differ.any():
        return DecisionCount(differ.size, 0)
    ties = differ & (decision.margins(expected) <= decision.errors(bounds))
    return DecisionCount(differ.size, int(differ.sum()), int(ties.sum()))
