"""An array whose values stand elsewhere: its axes turned or reversed, its rows shifted or in another order."""

import itertools

import numpy as np

from keras_pe.export.parity.diagnosis.same import is_same
from keras_pe.export.results import Array

_REACH = 16  # rows by which rows are looked for elsewhere


def orders(ndim: int) -> list[tuple[int, ...]]:
    """Returns every order of axes but their own."""
    return list(itertools.permutations(range(ndim)))[1:] if ndim <= 5 else []


def transposed(axes: tuple[int, ...]) -> tuple[str, str]:
    """What is said of other axes."""
    return "transposed axes", f"Its axes stand as {list(axes)}."


def turned_axes(one: Array, other: Array) -> tuple[str, str] | None:
    """An array whose axes are turned, or along some of which its values run backwards."""
    for axes in orders(one.ndim):
        turned = one.transpose(axes)
        if turned.shape == other.shape and is_same(turned, other):
            return transposed(axes)
    for count in range(1, one.ndim + 1):
        for axes in itertools.combinations(range(one.ndim), count):
            if is_same(np.flip(one, axes), other):
                return "reversed values", f"Its values run backwards along axis {', '.join(map(str, axes))}."
    return None


def shifted_rows(one: Array, other: Array) -> tuple[str, str] | None:
    """An array whose rows along an axis are those some places on."""
    for axis in range(one.ndim):
        length = one.shape[axis]
        for k in [k for size in range(1, min(_REACH, length - 1) + 1) for k in (size, -size)]:
            here = np.take(other, range(max(0, -k), length - max(0, k)), axis)
            there = np.take(one, range(max(0, k), length + min(0, k)), axis)
            if 2 * abs(k) < length and np.ptp(there) > 0 and is_same(there, here):
                return "shifted rows", f"Index i of axis {axis} holds what belongs to i{k:+d}: off by {k:+d}."
    return None


def reordered_rows(one: Array, other: Array) -> tuple[str, str] | None:
    """An array that has its rows along an axis in another order."""
    for axis in range(one.ndim):
        if not 1 < one.shape[axis] <= 4096:
            continue
        rows, moved = (np.moveaxis(array, axis, 0).reshape(one.shape[axis], -1) for array in (one, other))
        ordered = [np.lexsort(np.round(array, 5).T[:8]) for array in (rows, moved)]
        if is_same(rows[ordered[0]], moved[ordered[1]]) and not is_same(rows, moved):
            count = int((np.abs(rows - moved).max(axis=1) > 0).sum())
            return (
                "reordered values",
                f"{count} of {one.shape[axis]} indices of axis {axis} hold what belongs to others.",
            )
    return None
