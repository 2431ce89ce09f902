"""What has happened to an array, told from what it should be: rounded, scaled, turned, shifted, changed in places."""

import itertools
from collections.abc import Callable

import numpy as np

from keras_pe.export.parity.results import Array
from keras_pe.export.runtimes.runtime import as_dtype

_ROUNDING = 2.0**-21  # of the largest value: what is left when something else is explained
_HALF_A_STEP = 0.6  # of a scale: half of it is rounding, and the scale is fitted
_FEW = 0.02  # of the values, but at least one
_MOST_DIGITS = 5
_MOST_SCALES = 4096
_OFF_GRID = 0.02  # of a step, for a grid that is told from its own values
_ON_ONE_SCALE = 8  # values at least: fewer may be on a grid by chance
_STORED_ON_ONE_SCALE = 4  # integers that are there to be seen fit by chance far less often
_ON_ONE_FACTOR = 4  # values at least: fewer are multiples of others by chance
_AT_ONCE = 2**24  # values that are widened together; several copies of them are taken
_REACH = 16  # rows by which rows are looked for elsewhere


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


def describe_quantized(expected: Array, stored: Array) -> tuple[str, str] | None:
    """Returns what `describe_change` does where a weight is stored in integers; None where these are not its own.

    Args:
        expected: What the weight should be, of floating-point numbers.
        stored: The integers, of the same shape: `scale * (stored - zero point)` is to be the weight.
    """
    one, other = expected.astype(np.float64), stored.astype(np.float64)
    for axis in (None, *range(one.ndim)):
        axes = tuple(i for i in range(one.ndim) if i != axis)
        x, y = (array - array.mean(axis=axes, keepdims=True) for array in (other, one))
        spread = (x * x).sum(axis=axes, keepdims=True)
        scale = (x * y).sum(axis=axes, keepdims=True) / np.where(spread > 0, spread, 1.0)
        if (scale <= 0).any() or one.size < _STORED_ON_ONE_SCALE * scale.size:
            continue
        zero = np.rint((other - one / scale).mean(axis=axes, keepdims=True))
        error = np.abs(one - scale * (other - zero))
        if (error <= _HALF_A_STEP * scale).all():
            points = f" and the zero point {zero.flat[0]:.0f}" if axis is None and zero.any() else ""
            return f"quantized ({stored.dtype.name})", (
                f"It is stored as {stored.dtype.name} in {_scale(scale, axis)}{points}, off by up to {error.max():.1e}."
            )
    return None


def _change_of_large(one: Array, other: Array) -> tuple[str, str] | None:
    """Returns the change of an array that does not fit widened: what has happened to the first rows that differ."""
    if len(one) == 1:
        return describe_change(one[0], other[0])
    for axes in _orders(one.ndim):
        turned = one.transpose(axes)
        if turned.shape == other.shape and np.array_equal(turned[:1], other[:1]) and np.array_equal(turned, other):
            return _transposed(axes)
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


def is_same(one: Array, other: Array) -> bool:
    """Whether two arrays of one shape are the same but for rounding."""
    return bool(np.abs(one - other).max(initial=0.0) <= _ROUNDING * np.abs(one).max(initial=0.0))


def _reshaped(one: Array, other: Array) -> tuple[str, str]:
    for axes in itertools.permutations(range(one.ndim)):
        if one.transpose(axes).shape == other.shape and is_same(one.transpose(axes), other):
            return _transposed(axes)
    return "other shape", f"Its shape is {other.shape} instead of {one.shape}."


def _rounded(one: Array, other: Array) -> tuple[str, str] | None:
    largest = np.abs(one - other).max()
    for name in ("float16", "bfloat16"):
        with np.errstate(over="ignore"):
            if np.array_equal(one.astype(np.float32).astype(as_dtype(name)).astype(np.float64), other):
                return "rounded values", f"Its values are rounded to {name}, by up to {largest:.1e}."
    bits = np.asarray(one, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    if np.array_equal(bits.view(np.float32), other):
        return "rounded values", f"Its values are cut to bfloat16, by up to {largest:.1e}."
    for digits in range(1, _MOST_DIGITS + 1):
        if is_same(np.round(one, digits), other):
            return "rounded values", f"Its values are rounded to {digits} decimals, by up to {largest:.1e}."
    for axis in (None, *range(one.ndim)):
        axes = None if axis is None else tuple(i for i in range(one.ndim) if i != axis)
        steps = np.abs(other).max(axis=axes, keepdims=axes is not None)
        for levels in (127, 128, 7, 8):
            step = np.where(steps > 0, steps, 1.0) / levels
            places = other / step
            on_grid = np.abs(places - np.rint(places)).max() < 1e-3 * levels / 127
            if on_grid and one.size >= _ON_ONE_SCALE * step.size and (np.abs(one - other) <= 0.51 * step).all():
                kind = "int8" if levels > 100 else "int4"
                return f"quantized ({kind})", f"Its values are rounded to {_scale(step, axis)}, by up to {largest:.1e}."
    return None


def _misquantized(one: Array, other: Array) -> tuple[str, str] | None:
    """A weight on a grid of 8 bits that is the model's only with another scale or zero point."""
    for axis in (None, *range(one.ndim)):
        lines = [other.ravel()] if axis is None else list(np.moveaxis(other, axis, 0).reshape(other.shape[axis], -1))
        if len(lines) > _MOST_SCALES or min(line.size for line in lines) < _ON_ONE_SCALE:
            continue
        steps = np.array([_step(line) for line in lines])
        if not steps.all():
            continue
        shaped = steps.reshape([-1 if i == axis else 1 for i in range(one.ndim)])
        found = describe_quantized(one, np.rint(other / shaped).astype(np.int16))
        if found is not None:
            said = found[1].replace("stored as int16 in", "the model's in").rstrip(".")
            return "quantized (int8)", f"It holds {_scale(shaped, axis)}. Its integers are right: {said}."
    return None


def _rescaled(one: Array, other: Array) -> tuple[str, str] | None:
    """A weight whose integers are those that rounding gives, each line of them times the scale of another line."""
    for axis, levels in itertools.product(range(one.ndim), (127, 128, 7, 8)):
        axes = tuple(i for i in range(one.ndim) if i != axis)
        own = np.abs(one).max(axis=axes, keepdims=True) / levels
        integers = np.rint(one / np.where(own > 0, own, 1.0))
        weight = (integers * integers).sum(axis=axes, keepdims=True)
        steps = (integers * other).sum(axis=axes, keepdims=True) / np.where(weight > 0, weight, 1.0)
        is_telling = own.size > 1 and one.size >= _ON_ONE_SCALE * own.size and (steps > 0).all()
        if not is_telling or not is_same(integers * steps, other) or is_same(own, steps):
            continue
        text = f"It holds {_scale(steps, axis)}. Its integers are right"
        moved = int((np.abs(steps - own) > 1e-3 * own).sum())
        if np.allclose(np.sort(steps.ravel()), np.sort(own.ravel()), rtol=1e-3, atol=0):
            text += f"; {moved} of {own.size} scales stand in the place of others."
        else:
            text += f", {moved} of {own.size} scales are not the model's: {own.min():.6g} to {own.max():.6g}."
        return f"quantized ({'int8' if levels > 100 else 'int4'})", text
    return None


def _step(values: Array) -> float:
    """Returns the step of a grid of at most 8 bits on which all values are; 0 where there is none."""
    gaps = np.diff(np.unique(values))
    gaps = gaps[gaps > _ROUNDING * np.abs(values).max()]
    if not gaps.size:
        return 0.0
    step = float(gaps.min())
    step = float(np.mean(gaps[gaps < 1.5 * step]))
    places = values / step
    is_grid = np.abs(places - np.rint(places)).max() < _OFF_GRID and np.ptp(places) < 2**8
    return step if is_grid else 0.0


def _scale(steps: Array, axis: int | None) -> str:
    if axis is None:
        return f"multiples of the scale {steps.flat[0]:.6g}"
    return f"multiples of a scale for each index of axis {axis}, {steps.min():.6g} to {steps.max():.6g}"


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
    if offset and np.abs(other - one - offset).max() <= _ROUNDING * scale:
        return "offset values", f"Its values are those of the model {offset:+.6g}."
    return None


def _orders(ndim: int) -> list[tuple[int, ...]]:
    """Returns every order of axes but their own."""
    return list(itertools.permutations(range(ndim)))[1:] if ndim <= 5 else []


def _transposed(axes: tuple[int, ...]) -> tuple[str, str]:
    return "transposed axes", f"Its axes stand as {list(axes)}."


def _turned(one: Array, other: Array) -> tuple[str, str] | None:
    for axes in _orders(one.ndim):
        turned = one.transpose(axes)
        if turned.shape == other.shape and is_same(turned, other):
            return _transposed(axes)
    for count in range(1, one.ndim + 1):
        for axes in itertools.combinations(range(one.ndim), count):
            if is_same(np.flip(one, axes), other):
                return "reversed values", f"Its values run backwards along axis {', '.join(map(str, axes))}."
    return None


def _shifted(one: Array, other: Array) -> tuple[str, str] | None:
    for axis in range(one.ndim):
        length = one.shape[axis]
        for k in [k for size in range(1, min(_REACH, length - 1) + 1) for k in (size, -size)]:
            here = np.take(other, range(max(0, -k), length - max(0, k)), axis)
            there = np.take(one, range(max(0, k), length + min(0, k)), axis)
            if 2 * abs(k) < length and np.ptp(there) > 0 and is_same(there, here):
                return "shifted rows", f"Index i of axis {axis} holds what belongs to i{k:+d}: off by {k:+d}."
    return None


def _reordered(one: Array, other: Array) -> tuple[str, str] | None:
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


def _few(one: Array, other: Array) -> tuple[str, str] | None:
    out = np.abs(one - other) > _ROUNDING * np.abs(one).max(initial=0.0)
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
    _rounded,
    _rescaled,
    _misquantized,
    _turned,
    _shifted,
    _reordered,
    _scaled_by_index,
    _few,
    _one_row,
    _offset,
)
