"""Relations of values on a grid: rounded to a shorter float, to decimals, or to integers with a scale."""

import itertools
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.relations import ROUNDING, Change, all_but, factors, is_same
from keras_pe.export.results import HALF, Array, Cause
from keras_pe.export.runtimes.runtime import as_dtype

_HALF_A_STEP = 0.6  # largest error in steps of a scale: half a step by rounding, the rest since the scale is fitted
_MOST_DIGITS = 5
_MOST_SCALES = 4096
_OFF_GRID = 0.02  # largest distance from a grid that is inferred from the values, in steps
_ON_ONE_SCALE = 8  # least number of values, since fewer may be on a grid by chance
_STORED_ON_ONE_SCALE = 4  # least number of stored integers, which fit by chance far less often
_LEAST_DIFFERENT = 4  # least number of different values, since repeated rows have a scale of their own by chance
_LEVELS = {127: "int8", 128: "int8", 7: "int4", 8: "int4"}  # steps on one side of zero
_BY, OFF = ", by up to {error:.1e}.", ", off by up to {error:.1e}."


def stored_in_integers(expected: Array, stored: Array) -> Change | None:
    """Returns the change of a weight that is stored in integers; None if the integers are not those of the weight.

    Args:
        expected: The expected weight, of floats.
        stored: The integers, of equal shape. `scale * (stored - zero point)` should equal the weight.
    """
    found = _fitted_scale(expected.astype(np.float64), stored.astype(np.float64))
    if found is None:
        return None
    scale, point, facts = found
    text = f"It is stored as {stored.dtype.name} in {scale}{point}" + OFF
    return Change(Cause.quantized(stored.dtype.name), text, {}, facts)


def to_short_float(one: Array, other: Array, _: float) -> Change | None:
    """Detects an array whose values are rounded or truncated to 16 bits."""
    facts = {"error": np.abs(one - other).max()}
    for name in HALF:
        with np.errstate(over="ignore"):
            if np.array_equal(one.astype(np.float32).astype(as_dtype(name)).astype(np.float64), other):
                return Change(Cause.ROUNDED_VALUES, "Its values are rounded to {to}" + _BY, {"to": name}, facts)
    bits = np.asarray(one, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    if np.array_equal(bits.view(np.float32), other):
        return Change(Cause.ROUNDED_VALUES, "Its values are truncated to bfloat16" + _BY, {}, facts)
    return None


def to_decimals(one: Array, other: Array, _: float) -> Change | None:
    """Detects an array whose values are rounded to decimals."""
    for digits in range(1, _MOST_DIGITS + 1):
        if is_same(np.round(one, digits), other):
            facts = {"error": np.abs(one - other).max()}
            text = "Its values are rounded to {digits} decimals" + _BY
            return Change(Cause.ROUNDED_VALUES, text, {"digits": digits}, facts)
    return None


def to_integers(one: Array, other: Array, _: float) -> Change | None:
    """Detects an array whose values are rounded to multiples of a scale, one for all or for each index of an axis."""
    for axis in (None, *range(one.ndim)):
        axes = all_but(axis, one)
        steps = np.abs(other).max(axis=axes, keepdims=axis is not None)
        for levels, dtype in _LEVELS.items():
            step = np.where(steps > 0, steps, 1.0) / levels
            places = other / step
            on_grid = np.abs(places - np.rint(places)).max() < 1e-3 * levels / 127
            if on_grid and one.size >= _ON_ONE_SCALE * step.size and (np.abs(one - other) <= 0.51 * step).all():
                text = f"Its values are rounded to {_scale(step, axis)}" + _BY
                return Change(Cause.quantized(dtype), text, {}, {"error": np.abs(one - other).max()})
    return None


def rescaled_integers(one: Array, other: Array, _: float) -> Change | None:
    """Detects a weight on a grid of 8 bits that equals the model's only with another scale or zero point."""
    for axis in (None, *range(one.ndim)):
        lines = [other.ravel()] if axis is None else list(np.moveaxis(other, axis, 0).reshape(other.shape[axis], -1))
        if len(lines) > _MOST_SCALES or min(line.size for line in lines) < _ON_ONE_SCALE:
            continue
        steps = np.array([_step(line) for line in lines])
        if not steps.all():
            continue
        shaped = steps.reshape([-1 if i == axis else 1 for i in range(one.ndim)])
        found = _fitted_scale(one, np.rint(other / shaped))
        if found is not None:
            scale, point, facts = found
            text = f"It has {_scale(shaped, axis)}. Its integers are right with {scale}{point}" + OFF
            return Change(Cause.QUANTIZED_INT8, text, {}, facts)
    return None


def with_scales_of_others(one: Array, other: Array, _: float) -> Change | None:
    """Detects a weight with correct integers in which each line has the scale of another line."""
    for axis, levels in itertools.product(range(one.ndim), _LEVELS):
        axes = all_but(axis, one)
        own = np.abs(one).max(axis=axes, keepdims=True) / levels
        integers = np.rint(one / np.where(own > 0, own, 1.0))
        steps = factors(integers, other, axes)
        is_telling = own.size > 1 and one.size >= _ON_ONE_SCALE * own.size and (steps > 0).all()
        if not is_telling or not is_same(integers * steps, other) or is_same(own, steps):
            continue
        if min(len(np.unique(line)) for line in np.moveaxis(integers, axis, 0)) < _LEAST_DIFFERENT:
            continue
        text = f"It has {_scale(steps, axis)}. Its integers are right"
        facts = {"moved": int((np.abs(steps - own) > 1e-3 * own).sum()), "size": own.size}
        if np.allclose(np.sort(steps.ravel()), np.sort(own.ravel()), rtol=1e-3, atol=0):
            text += ", but {moved} of {size} scales are exchanged."
        else:
            text += ", but {moved} of {size} scales are wrong. The right ones are {least:.6g} to {most:.6g}."
            facts |= {"least": own.min(), "most": own.max()}
        return Change(Cause.quantized(_LEVELS[levels]), text, {}, facts)
    return None


def _fitted_scale(one: Array, integers: Array) -> tuple[str, str, dict[str, Any]] | None:
    """Returns the scale, the zero point and the remaining error with which integers represent an array."""
    for axis in (None, *range(one.ndim)):
        axes = all_but(axis, one)
        for scale in (_scale_of_largest(one, integers, axes), _scale_of_most(one, integers, axes)):
            if (scale <= 0).any() or one.size < _STORED_ON_ONE_SCALE * scale.size:
                continue
            zero = np.rint((integers - one / scale).mean(axis=axes, keepdims=True))
            error = np.abs(one - scale * (integers - zero))
            if (error <= _HALF_A_STEP * scale).all():
                point = f" and the zero point {zero.flat[0]:.0f}" if axis is None and zero.any() else ""
                return _scale(scale, axis), point, {"error": error.max()}
    return None


def _scale_of_largest(one: Array, integers: Array, axes: tuple[int, ...]) -> Array:
    """Returns the scale that maps the largest integer to the largest value, as in quantizers without a zero point."""
    largest, last = (np.abs(array).max(axis=axes, keepdims=True) for array in (one, integers))
    scale: Array = largest / np.where(last > 0, last, 1.0)
    return scale


def _scale_of_most(one: Array, integers: Array, axes: tuple[int, ...]) -> Array:
    """Returns the scale with the least remaining error, for any zero point."""
    x, y = (array - array.mean(axis=axes, keepdims=True) for array in (integers, one))
    return factors(x, y, axes)


def _step(values: Array) -> float:
    """Returns the step of a grid of at most 8 bits that has all values; 0 without one."""
    gaps = np.diff(np.unique(values))
    gaps = gaps[gaps > ROUNDING * np.abs(values).max()]
    if gaps.size < _LEAST_DIFFERENT - 1:
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
