"""Relations of arrays that are multiples of the model's."""

from collections.abc import Iterable

import numpy as np

from keras_pe.export.parity.diagnosis.relations import ROUNDING, Change, all_but, factors, is_same
from keras_pe.export.results import Array, Cause

_ON_ONE_FACTOR = 4  # least number of values, since fewer are multiples of others by chance
_LEAST_CHANGE = 1e-6  # relative change of a factor, which float32 determines to six digits
_MOST_NAMED = 5


def all_one_value(one: Array, other: Array, _: float) -> Change | None:
    """Detects an array that is zero, or another constant, throughout."""
    if not other.any():
        text = "All values are zero; the model's values go up to {largest:.3g}."
        return Change(Cause.MISSING_VALUES, text, {}, {"largest": np.abs(one).max()})
    if one.size > 1 and np.ptp(other) == 0 and np.ptp(one) > 0:
        return Change(Cause.MISSING_VALUES, "All values are {value:.6g}.", {"value": float(other.flat[0])})
    return None


def multiple(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array multiplied by a number, such as -1."""
    factor = factors(one, other, all_but(None, one)).item()
    if np.count_nonzero(one) < 2 or factor == 0 or not is_same(factor * one, other, tolerance):
        return None
    if abs(factor - 1) < _LEAST_CHANGE:  # the difference is in values that are small beside the largest
        return None
    cause = cause_of_factor(factor)
    if cause is Cause.FLIPPED_SIGN:
        return Change(cause, "Its values have the opposite sign.")
    return Change(cause, "Its values are {factor:.7g} times those of the model.", {"factor": factor})


def cause_of_factor(factor: float) -> Cause:
    """Returns the cause of values that are multiplied by a number, which float32 determines to six digits."""
    return Cause.FLIPPED_SIGN if abs(factor + 1) < _LEAST_CHANGE else Cause.SCALED_VALUES


def scaled_by_index(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array multiplied by a number for each index of one of its axes."""
    return _scaled_along(range(one.ndim if one.ndim > 1 else 0), one, other, tolerance)


def scaled_within_rows(one: Array, other: Array, tolerance: float) -> Change | None:
    """As `scaled_by_index` for an output. Its first axis is the batch, so a factor for each row is not a cause.

    If all rows are equal, each of their values has a factor by chance.
    """
    return None if (one == one[:1]).all() else _scaled_along(range(1, one.ndim), one, other, tolerance)


def _scaled_along(candidates: Iterable[int], one: Array, other: Array, tolerance: float) -> Change | None:
    for axis in candidates:
        axes = all_but(axis, one)
        found = factors(one, other, axes)
        if one.size >= _ON_ONE_FACTOR * found.size and is_same(found * one, other, tolerance):
            rows = np.flatnonzero(values_out(one, other, tolerance).any(axis=axes))
            own = found.ravel()[rows]
            numbers = "different numbers, {least:.6g} to {most:.6g}"
            if len(rows) == found.size:
                text = f"All {{count:,}} indices of axis {{axis}} are multiplied by {numbers}."
            elif len(rows) > 1:
                text = f"{{rows}} are multiplied by {numbers}; the others agree."
            else:
                text = "{rows} is multiplied by {least:.6g}; the others agree."
            facts = {"rows": describe_rows(axis, rows, found.size), "count": len(rows)}
            facts |= {"least": own.min(), "most": own.max()}
            return Change(Cause.SCALED_VALUES, text, {"axis": axis}, facts)
    return None


def values_out(one: Array, other: Array, tolerance: float) -> Array:
    """Returns which values differ by more than rounding."""
    out: Array = np.abs(one - other) > max(tolerance, ROUNDING * np.abs(one).max(initial=0.0))
    return out


def describe_rows(axis: int, rows: Array, size: int) -> str:
    """Returns text that names some rows of an axis."""
    if len(rows) == 1:
        return f"Index {rows[0]} of axis {axis} (1 of {size:,})"
    named = ", ".join(map(str, rows[:_MOST_NAMED])) + (", ..." if len(rows) > _MOST_NAMED else "")
    return f"Indices {named} of axis {axis} ({len(rows):,} of {size:,})"
