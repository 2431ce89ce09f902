"""Finds the change of an array: the simplest relation that explains everything except rounding."""

from collections.abc import Sequence

import numpy as np

from keras_pe.export.comparison.differences import absolute_difference
from keras_pe.export.comparison.float_types import largest
from keras_pe.export.parity.diagnosis.relations import ROUNDING, Change, Relation, all_but, is_same
from keras_pe.export.parity.diagnosis.relations.placement import (
    ends_at_row,
    other_layout,
    reordered_rows,
    reversed_axes,
    shifted_rows,
    transpositions,
    turned_axes,
)
from keras_pe.export.parity.diagnosis.relations.rounding import (
    rescaled_integers,
    to_decimals,
    to_integers,
    to_short_float,
    with_scales_of_others,
)
from keras_pe.export.parity.diagnosis.relations.scaling import (
    all_one_value,
    describe_rows,
    multiple,
    scaled_by_index,
    scaled_within_rows,
    values_out,
)
from keras_pe.export.results import Array, Cause

_FEW = 0.02  # largest share of the values that counts as few; at least one value
_FEW_ROWS = 0.1  # largest share of an axis that counts as few rows; at least one row
_LEAST_IN_ROW = 3  # least number of values of a row, as opposed to a single value
_LEAST_CUT = 3  # least number of clipped values, since fewer may agree by chance
_VISIBLE = 4.0  # factor on a tolerance, beyond which a change is seen
_AT_ONCE = 2**24  # values that are converted to float64 at once, in several copies

UNEXPLAINED = frozenset({Cause.CHANGED_VALUES, Cause.OTHER_SHAPE})
"""The causes of changes without a relation that holds for all values."""


def offset(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array with a constant added."""
    if one.size < 2:
        return None
    by = float((other - one).mean())
    allowed = max(tolerance, ROUNDING * (np.abs(one).max() + abs(by)))
    if by and np.abs(other - one - by).max() <= allowed:
        return Change(Cause.OFFSET_VALUES, "Its values are off by {by:+.6g}.", {"by": by})
    return None


def clipping(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array clipped at a limit that several of its values exceed."""
    low, high = other.min(initial=np.inf), other.max(initial=-np.inf)
    slack = max(tolerance, ROUNDING * np.abs(one).max(initial=0.0))
    below, above = int((one < low - slack).sum()), int((one > high + slack).sum())
    limits = ({"low": float(low)} if below else {}) | ({"high": float(high)} if above else {})
    count = below + above
    is_cut = min(count, one.size - count) >= _LEAST_CUT  # on either side of the limit
    if not is_cut or not is_same(np.clip(one, low, high), other, tolerance):
        return None
    at = " and ".join(f"{{{name}:.6g}}" for name in limits)
    facts = {"count": count, "size": one.size}
    return Change(Cause.CLIPPED_VALUES, f"{{count:,}} of {{size:,}} values are clipped at {at}.", limits, facts)


def few_values(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects a few values that differ."""
    out = values_out(one, other, tolerance)
    places = np.argwhere(out)
    if not 1 <= len(places) <= max(1, _FEW * out.size):
        return None
    place = tuple(int(i) for i in places[0])
    values = "{expected:.6g} in the model, {actual:.6g} in the artifact"
    what = "1 value differs" if len(places) == 1 else "{count:,} of {size:,} values differ, the first"
    facts = {"count": len(places), "size": out.size, "place": list(place)}
    facts |= {"expected": one[place], "actual": other[place]}
    return Change(Cause.CHANGED_VALUES, f"{what} at {{place}}: {values}.", {}, facts)


def few_rows(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects a few indices of an axis whose values differ, and the change of these values."""
    out = values_out(one, other, tolerance)
    found = rows_of(out)
    if found is None:
        return None
    axis, rows = found
    inside = out.take(rows, axis)
    if inside.size < _LEAST_IN_ROW * len(rows) or 2 * inside.sum() < inside.size:
        return None  # single values, which `few_values` reports one by one
    found_there = (relation(one.take(rows, axis), other.take(rows, axis), tolerance) for relation in _OF_ROWS)
    change = next((each for each in found_there if each is not None), None)
    facts = {"rows": describe_rows(axis, rows, one.shape[axis]), "error": np.abs(one - other).max()}
    differ, there = "differs" if len(rows) == 1 else "differ", "" if change is None else f" There: {change}"
    text = f"{{rows}} {differ}, by up to {{error:.1e}}; the others agree.{there}"
    return Change(Cause.CHANGED_VALUES, text, {"axis": axis, "at": rows.tolist()}, facts)


def rows_of(out: Array) -> tuple[int, Array] | None:
    """Returns the axis with few indices that have all wrong values, and these indices; None without one."""
    best: tuple[int, Array] | None = None
    for axis in range(out.ndim if out.ndim > 1 else 0):
        rows = np.flatnonzero(out.any(axis=all_but(axis, out)))
        is_few = out.shape[axis] > 2 and 1 <= len(rows) <= max(1, _FEW_ROWS * out.shape[axis])
        if is_few and (best is None or len(rows) / out.shape[axis] < len(best[1]) / out.shape[best[0]]):
            best = axis, rows
    return best


_OF_ROWS: tuple[Relation, ...] = (all_one_value, multiple, offset)

OF_WEIGHTS: tuple[Relation, ...] = (
    all_one_value,
    to_short_float,
    multiple,
    to_decimals,
    to_integers,
    with_scales_of_others,
    rescaled_integers,
    turned_axes,
    reversed_axes,
    shifted_rows,
    reordered_rows,
    clipping,
    few_rows,
    scaled_by_index,
    few_values,
    offset,
)
"""Relations of a weight. Each is simpler than the later ones."""

_ROUNDING = (to_short_float, to_decimals, to_integers, with_scales_of_others, rescaled_integers)

OF_ROUNDED: tuple[Relation, ...] = tuple(each for each in OF_WEIGHTS if each not in _ROUNDING)
"""Relations of a weight that is also rounded."""

OF_OUTPUTS: tuple[Relation, ...] = (
    ends_at_row,
    other_layout,
    *(scaled_within_rows if each is scaled_by_index else each for each in OF_WEIGHTS),
)


def find_change(
    expected: Array, actual: Array, tolerance: float = 0.0, relations: Sequence[Relation] = OF_WEIGHTS
) -> Change | None:
    """Returns the change of an array; None if the arrays are equal.

    The change is the first relation that explains everything except rounding. Its cause is `UNEXPLAINED` if there is
    none.

    Args:
        expected: The expected array of floats.
        actual: The actual array.
        tolerance: The tolerance on the remaining difference, if larger than `ROUNDING`.
        relations: The relations to try, in this order.
    """
    if np.array_equal(expected, actual):
        return None  # before the conversion to float64, which doubles the memory of a large table
    if expected.shape == actual.shape and expected.size > _AT_ONCE:
        return _change_of_large(expected, actual)
    one, other = expected.astype(np.float64), actual.astype(np.float64)
    if one.shape != other.shape:
        text = "Its shape is {actual} instead of {expected}."
        other_shape = Change(Cause.OTHER_SHAPE, text, {}, {"actual": other.shape, "expected": one.shape})
        return turned_axes(one, other, tolerance) or other_shape
    if np.array_equal(one, other, equal_nan=True):
        return None
    broken = ~np.isfinite(other) & np.isfinite(one)
    if broken.any() and np.isnan(one).sum() == np.isnan(other).sum():
        moved = (relation(one, other, tolerance) for relation in (turned_axes, reversed_axes))
        if (change := next((each for each in moved if each is not None), None)) is not None:
            return change
    if broken.any():
        text = "{count:,} of {size:,} values are NaN or infinite, the first at {place}."
        facts = {"count": int(broken.sum()), "size": broken.size, "place": [int(i) for i in np.argwhere(broken)[0]]}
        if (rows := rows_of(broken)) is not None and broken.sum() > 1:
            text += " They are in: {rows}."
            facts["rows"] = describe_rows(*rows, broken.shape[rows[0]])
        return Change(Cause.NOT_A_NUMBER, text, {}, facts)
    forms = finite_forms(one, other)
    # Values that agree but for rounding have every relation. A weight may be rounded, and few of its values may differ.
    is_open = relations is OF_OUTPUTS or not np.isfinite(one).all()
    if is_open and all(is_same(*form, tolerance) for form in forms):
        return _unexplained_change(one, other)
    found = (relation(*form, tolerance) for relation in relations for form in forms)
    return next((change for change in found if change is not None), None) or _unexplained_change(one, other)


def finite_forms(one: Array, other: Array) -> list[tuple[Array, Array]]:
    """Returns two arrays of equal shape as pairs of finite arrays that fulfill the same relations.

    A value that is NaN or infinite in either array is replaced by a finite one of its line, from one position in both
    arrays. A relation of values, or of an index of the other axes, then still holds. There is a pair for each axis of
    the line, and no pair if no value is finite in both.
    """
    is_open = ~(np.isfinite(one) & np.isfinite(other))
    if not is_open.any():
        return [(one, other)]
    if is_open.all():
        return []
    places = np.arange(one.size).reshape(one.shape)
    usual = places[~is_open][0]
    pairs = []
    for axis in range(one.ndim):
        first = np.expand_dims((~is_open).argmax(axis=axis), axis)
        source = np.where(is_open, np.take_along_axis(places, first, axis), places)
        source = np.where(is_open.ravel()[source], usual, source)
        pairs.append((one.ravel()[source], other.ravel()[source]))
    return pairs


def holds(change: Change, expected: Array, actual: Array, tolerance: float, relations: Sequence[Relation]) -> bool:
    """Whether another case shows a change that is not its simplest one, since noise may hide the remaining error."""
    if expected.shape != actual.shape or expected.size > _AT_ONCE:
        return False
    one, other = expected.astype(np.float64), actual.astype(np.float64)
    if (~np.isfinite(other) & np.isfinite(one)).any():
        return False
    forms = finite_forms(one, other)
    return any(change.agrees(relation(*form, tolerance)) for relation in relations for form in forms)


def contradicts(change: Change, expected: Array, tolerance: float) -> bool:
    """Whether agreement with these values contradicts a change, which would move at least one of them visibly.

    Only changes that move all values can be contradicted. A clipping, for example, leaves values within its limits.
    """
    if change.cause is Cause.OFFSET_VALUES:
        return bool(abs(change.parameters["by"]) > _VISIBLE * tolerance)
    if change.cause is Cause.MISSING_VALUES:
        return largest(expected.astype(np.float64) - change.parameters.get("value", 0.0), 0.0) > _VISIBLE * tolerance
    factor = -1.0 if change.cause is Cause.FLIPPED_SIGN else change.parameters.get("factor", 1.0)
    return bool(abs(factor - 1) * largest(expected, 0.0) > _VISIBLE * tolerance)


def _unexplained_change(one: Array, other: Array) -> Change:
    difference = absolute_difference(one, other)
    out = difference > 0
    worst = np.unravel_index(int(difference.argmax()), one.shape)
    text = (
        "{count:,} of {size:,} values differ, by up to {error:.1e} at {place}: "
        "{expected:.6g} in the model, {actual:.6g} in the artifact."
    )
    facts = {"count": int(out.sum()), "size": out.size, "error": difference[worst]}
    facts |= {"place": [int(i) for i in worst], "expected": one[worst], "actual": other[worst]}
    return Change(Cause.CHANGED_VALUES, text, {}, facts)


def _change_of_large(one: Array, other: Array) -> Change | None:
    """Returns the change of an array that is too large for float64, from the first rows that differ."""
    if len(one) == 1:
        return find_change(one[0], other[0])
    for change, array in transpositions(one, other, 0.0):
        if np.array_equal(array, other, equal_nan=True):
            return change
    count = max(1, _AT_ONCE * len(one) // one.size)
    parts = [slice(start, min(start + count, len(one))) for start in range(0, len(one), count)]
    differing = [rows for rows in parts if not np.array_equal(one[rows], other[rows], equal_nan=True)]
    for rows in differing:
        found = find_change(one[rows], other[rows])
        if found is not None:
            text = (
                "{parts_out:,} of {parts:,} parts differ. The first is rows {from_row:,} to {to_row:,} of {rows:,}. "
                f"In it, counted from its first row: {found.template}"
            )
            where = {"from_row": rows.start, "to_row": rows.stop - 1, "rows": len(one)}
            shares = {"parts_out": len(differing), "parts": len(parts)}
            return Change(found.cause, text, found.parameters, {**found.facts, **where, **shares})
    return None
