"""What has happened to an array, told from what it should be: rounded, scaled, turned, shifted, changed in places."""

import itertools
from collections.abc import Callable

import numpy as np

from keras_pe.export.parity.diagnosis.grids import misquantized, rescaled, rounded
from keras_pe.export.parity.diagnosis.moved import orders, reordered_rows, shifted_rows, transposed, turned_axes
from keras_pe.export.parity.diagnosis.same import ROUNDING, is_same
from keras_pe.export.results import Array

_FEW = 0.02  # of the values, but at least one
_ON_ONE_FACTOR = 4  # values at least: fewer are multiples of others by chance
_AT_ONCE = 2**24  # values that are widened together; several copies of them are taken


def describe_change(expected: Array, actual: Array) -> tuple[str, str] | None:
    """Returns the cause of a difference and a sentence about it; None where the arrays are equal.

    The first explanation that leaves nothing but rounding is the one: each is simpler than those after it.

    Args:
        expected: What the array should be, of floating-point numbers.
        actual: What it is.
    """
    if np.array_equal(expected, actual):
        return None  # before they are widened: a large table takes twice its memory then, and most are equal
    if expected.shape == actual.shape and expected.size > _AT_ONCE:
        return _change_of_large(expected, actual)
    one, other = expected.astype(np.float64), actual.astype(np.float64)
    if one.shape != other.shape:
        return _reshaped(one, other)
    if np.array_equal(one, other, equal_nan=True):
        return None
    broken = ~np.isfinite(other) & np.isfinite(one)
    if broken.any():
        place = [int(i) for i in np.argwhere(broken)[0]]
        return (
            "NaN or infinity",
            f"{int(broken.sum()):,} of {broken.size:,} values are NaN or infinite, the first at {place}.",
        )
    for explain in _EXPLANATIONS:
        found = explain(one, other)
        if found is not None:
            return found
    out = one != other
    worst = np.unravel_index(int(np.abs(one - other).argmax()), one.shape)
    largest = abs(one[worst] - other[worst])
    return "changed values", (
        f"{int(out.sum()):,} of {out.size:,} values differ, by up to {largest:.1e} at {[int(i) for i in worst]}: "
        f"{one[worst]:.6g} in the model, {other[worst]:.6g} in the artifact."
    )


def _change_of_large(one: Array, other: Array) -> tuple[str, str] | None:
    """Returns the change of an array that does not fit widened: what has happened to the first rows that differ."""
    if len(one) == 1:
        return describe_change(one[0], other[0])
    for axes in orders(one.ndim):
        turned = one.transpose(axes)
        if turned.shape == other.shape and np.array_equal(turned[:1], other[:1]) and np.array_equal(turned, other):
            return transposed(axes)
    count = max(1, _AT_ONCE * len(one) // one.size)
    parts = [slice(start, min(start + count, len(one))) for start in range(0, len(one), count)]
    differing = [rows for rows in parts if not np.array_equal(one[rows], other[rows])]
    for rows in differing:  # one that has NaN where it should is no change
        found = describe_change(one[rows], other[rows])
        if found is not None:
            where = f"Rows {rows.start:,} to {rows.stop - 1:,} of {len(one):,} are the first that differ"
            rest = f"{len(differing):,} of {len(parts):,} such parts differ."
            return found[0], f"{where}; of these, counted from the first: {found[1]} {rest}"
    return None


def _reshaped(one: Array, other: Array) -> tuple[str, str]:
    for axes in itertools.permutations(range(one.ndim)):
        if one.transpose(axes).shape == other.shape and is_same(one.transpose(axes), other):
            return transposed(axes)
    return "other shape", f"Its shape is {other.shape} instead of {one.shape}."


def _zeroed(one: Array, other: Array) -> tuple[str, str] | None:
    if not other.any():
        return "missing values", f"It is zero throughout; the model's values go up to {np.abs(one).max():.3g}."
    if one.size > 1 and np.ptp(other) == 0 and np.ptp(one) > 0:
        return "missing values", f"It is {other.flat[0]:.6g} throughout."
    return None


def _scaled(one: Array, other: Array) -> tuple[str, str] | None:
    weight = float((one * one).sum())
    if weight == 0 or one.size < 2:
        return None
    factor = float((one * other).sum()) / weight
    if factor == 0 or not is_same(factor * one, other):
        return None
    if abs(factor + 1) < 1e-6:
        return "flipped sign", "Its values have the other sign."
    return "scaled values", f"Its values are {factor:.7g} times those of the model."


def _scaled_by_index(one: Array, other: Array) -> tuple[str, str] | None:
    for axis in range(one.ndim if one.ndim > 1 else 0):
        axes = tuple(i for i in range(one.ndim) if i != axis)
        weight = (one * one).sum(axis=axes, keepdims=True)
        factors = (one * other).sum(axis=axes, keepdims=True) / np.where(weight > 0, weight, 1.0)
        if one.size >= _ON_ONE_FACTOR * factors.size and is_same(factors * one, other):
            said = f"{factors.min():.6g} to {factors.max():.6g}"
            return "scaled values", f"Each index of axis {axis} is multiplied by a number of its own, {said}."
    return None


def _offset(one: Array, other: Array) -> tuple[str, str] | None:
    if one.size < 2:
        return None
    offset = float((other - one).mean())
    scale = np.abs(one).max() + abs(offset)
    if offset and np.abs(other - one - offset).max() <= ROUNDING * scale:
        return "offset values", f"Its values are those of the model {offset:+.6g}."
    return None


def _few(one: Array, other: Array) -> tuple[str, str] | None:
    out = np.abs(one - other) > ROUNDING * np.abs(one).max(initial=0.0)
    places = np.argwhere(out)
    if not 1 <= len(places) <= max(1, _FEW * out.size):
        return None
    place = tuple(int(i) for i in places[0])
    values = f"{one[place]:.6g} in the model, {other[place]:.6g} in the artifact"
    what = "1 value differs" if len(places) == 1 else f"{len(places):,} of {out.size:,} values differ, the first"
    return "changed values", f"{what} at {list(place)}: {values}."


def _one_row(one: Array, other: Array) -> tuple[str, str] | None:
    out = one != other
    for axis in range(one.ndim):
        rows = np.flatnonzero(out.any(axis=tuple(i for i in range(one.ndim) if i != axis)))
        if one.ndim > 1 and len(rows) == 1 and one.shape[axis] > 2:
            largest = np.abs(one - other).max()
            return (
                "changed values",
                f"Index {rows[0]} of axis {axis} differs, by up to {largest:.1e}; the others agree.",
            )
    return None


_EXPLANATIONS: tuple[Callable[[Array, Array], tuple[str, str] | None], ...] = (
    _zeroed,
    _scaled,
    rounded,
    rescaled,
    misquantized,
    turned_axes,
    shifted_rows,
    reordered_rows,
    _scaled_by_index,
    _few,
    _one_row,
    _offset,
)
