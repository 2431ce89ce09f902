"""Relations of values at other positions: permuted, reversed, shifted or reordered axes and rows."""

import itertools
from collections.abc import Iterator

import numpy as np

from keras_pe.export.comparison.differences import absolute_difference
from keras_pe.export.comparison.float_types import largest
from keras_pe.export.parity.diagnosis.relations import ROUNDING, Change, all_but, is_same
from keras_pe.export.results import Array, Cause

_REACH = 16  # largest shift of rows to try
_MOST_ROWS = 4096  # largest number of rows to sort
_PROBES = 16  # values that are compared first, since most orders of axes are wrong


def orders(ndim: int) -> list[tuple[int, ...]]:
    """Returns every order of axes except the identity."""
    return list(itertools.permutations(range(ndim)))[1:] if ndim <= 5 else []


def transpositions(one: Array, other: Array, allowed: float) -> Iterator[tuple[Change, Array]]:
    """Yields each transposition of an array whose first values agree with another, reshaped to it, and its change."""
    for axes in orders(one.ndim if one.size == other.size else 0):
        found = one.transpose(axes)
        if absolute_difference(found.flat[:_PROBES], other.flat[:_PROBES]).max(initial=0.0) <= allowed:
            text = "Its axes are in the order {axes}" + (
                "." if found.shape == other.shape else ", reshaped to its own shape."
            )
            yield Change(Cause.TRANSPOSED_AXES, text, {"axes": list(axes)}), found.reshape(other.shape)


def turned_axes(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array with permuted axes, whatever its shape."""
    allowed = max(tolerance, ROUNDING * largest(one, 0.0))
    found = transpositions(one, other, allowed)
    return next((change for change, array in found if is_same(array, other, tolerance)), None)


def reversed_axes(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array that is reversed along some axes."""
    for count in range(1, one.ndim + 1):
        for axes in itertools.combinations(range(one.ndim), count):
            if is_same(np.flip(one, axes), other, tolerance):
                text = "Its values are reversed along axis {axes}."
                return Change(Cause.REVERSED_VALUES, text, {"axes": ", ".join(map(str, axes))})
    return None


def shifted_rows(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array whose rows are shifted along an axis."""
    for axis in range(one.ndim):
        length = one.shape[axis]
        for k in [k for size in range(1, min(_REACH, length - 1) + 1) for k in (size, -size)]:
            here = np.take(other, range(max(0, -k), length - max(0, k)), axis)
            there = np.take(one, range(max(0, k), length + min(0, k)), axis)
            if 2 * abs(k) < length and np.ptp(there) > 0 and is_same(there, here, tolerance):
                text = "Index i of axis {axis} has the values of index i{k:+d}."
                return Change(Cause.SHIFTED_ROWS, text, {"axis": axis, "k": k})
    return None


def reordered_rows(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array whose rows along an axis are in another order."""
    for axis in range(one.ndim):
        if not 1 < one.shape[axis] <= _MOST_ROWS:
            continue
        rows, moved = (np.moveaxis(array, axis, 0).reshape(one.shape[axis], -1) for array in (one, other))
        ordered = [np.lexsort(np.round(array, 5).T[:8]) for array in (rows, moved)]
        if is_same(rows[ordered[0]], moved[ordered[1]], tolerance) and not is_same(rows, moved, tolerance):
            facts = {"count": int((np.abs(rows - moved).max(axis=1) > 0).sum()), "size": one.shape[axis]}
            text = "{count} of {size} indices of axis {axis} have the values of other indices."
            return Change(Cause.REORDERED_VALUES, text, {"axis": axis}, facts)
    return None


def other_layout(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array with interleaved columns instead of halves, or the reverse."""
    channels = one.shape[-1] if one.ndim else 0
    if channels < 4 or channels % 2:
        return None
    interleave = np.arange(channels).reshape(2, -1).T.ravel()
    for order, layout in ((interleave, "interleaved"), (np.argsort(interleave), "concatenated")):
        moved = one[..., order]
        if is_same(moved, other, tolerance) and not is_same(one, moved, tolerance):
            text = "Its columns are right, but in the {layout} order."
            return Change(Cause.WRONG_LAYOUT, text, {"layout": layout})
    return None


def ends_at_row(one: Array, other: Array, tolerance: float) -> Change | None:
    """Detects an array that is right up to an index of its second axis, and wrong at every later index.

    The last axis is that of channels, which have no positions.
    """
    if one.ndim < 3 or one.shape[1] < 4:
        return None
    wrong = np.abs(one - other).max(axis=all_but(1, one)) > tolerance
    first = int(wrong.argmax())
    if first < 2 or not wrong[first:].all():
        return None
    text = "It agrees up to position {last}, but not from {first} to {end}."
    return Change(Cause.CLAMPED_TABLE, text, {"last": first - 1, "first": first}, {"end": len(wrong) - 1})
