"""Compares the weights of an artifact that differs on purpose. Each may differ by rounding to its storage format."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.comparison.float_types import EPSILON, is_float
from keras_pe.export.model.stored_weights import Folding
from keras_pe.export.parity.diagnosis.relations import Change, all_but, factors
from keras_pe.export.parity.diagnosis.relations.detection import OF_ROUNDED, find_change
from keras_pe.export.parity.diagnosis.relations.rounding import OFF
from keras_pe.export.parity.diagnosis.relations.scaling import describe_rows
from keras_pe.export.parity.diagnosis.weight_matching import TELLING, forms_of
from keras_pe.export.parity.diagnosis.weight_pairs import WeightFault, WeightPairs
from keras_pe.export.results import HALF, Array, Cause, StoredWeights
from keras_pe.export.runtimes.runtime import LazyArrays, as_dtype

_ROUNDED_TWICE = 4  # units of float32 by which a converter may have changed a constant in another computation
_LEAST_HALF = 1.2e-7  # converters to float16 replace smaller values, which have few digits in float16
_A_STEP = 1.01  # largest error in steps of integers: half a step by rounding, the rest by zero points and clipping
_IN_LINE = 16  # least number of values that determine the factor of a line
_DEVIATIONS = 6  # largest error of a line's factor, in standard deviations of rounding
_INT4 = 16  # the numbers that 4 bits distinguish
_CUT = 0.02  # largest relative change of a factor by clipping the largest value of each block


@dataclass(frozen=True)
class _Fit:
    """A weight and a constant of an artifact in equal shapes.

    Attributes:
        weight: The weight.
        constant: The constant.
        allowed: The tolerance of each value for rounding to the constant's format.
        step: The step of the constant's integers, for each value; None for floats.
    """

    weight: Array
    constant: Array
    allowed: Array
    step: Array | None

    @property
    def out(self) -> Array:
        """Whether each value differs by more than rounding."""
        out: Array = ~(np.abs(self.weight - self.constant) <= self.allowed) & ~(
            np.isnan(self.weight) & np.isnan(self.constant)
        )
        return out

    @property
    def share(self) -> float:
        """The share of the weight's nonzero values that rounding explains."""
        telling = self.weight != 0
        return float(1 - self.out[telling].mean()) if telling.any() else float(not self.out.any())

    @property
    def is_telling(self) -> bool:
        """Whether most values agree, with enough different values to rule out chance."""
        if 2 * self.share < 1:
            return False
        return len(np.unique(self.weight[(self.weight != 0) & ~self.out])) >= TELLING

    @property
    def change(self) -> Change | None:
        """The change of the weight beside rounding; None without one."""
        if self.out.any():
            tolerance = float(self.allowed.max(initial=0.0))
            return find_change(self.weight, self.constant, tolerance, OF_ROUNDED)
        return None if self.step is None else self._factor_of_lines()

    @property
    def rounding(self) -> Change:
        """The rounding of the weight to integers."""
        assert self.step is not None
        integers = np.rint(self.constant / np.where(self.step > 0, self.step, 1.0))
        dtype = "int4" if np.ptp(integers) < _INT4 else "int8"
        text = f"It is stored as {dtype} in multiples of {{count}} scales, {{least:.6g}} to {{most:.6g}}" + OFF
        facts = {"count": len(np.unique(self.step)), "least": self.step.min(), "most": self.step.max()}
        return Change(Cause.quantized(dtype), text, {}, facts | {"error": np.abs(self.weight - self.constant).max()})

    def _factor_of_lines(self) -> Change | None:
        """Returns the change of indices of an axis whose factor differs from 1 by more than rounding, or None."""
        assert self.step is not None
        for axis in range(self.weight.ndim):
            axes = all_but(axis, self.weight)
            if self.weight.size < _IN_LINE * self.weight.shape[axis]:
                continue
            squares = (self.weight**2).sum(axis=axes)
            noise = np.sqrt((self.weight**2 * self.step**2 / 12).sum(axis=axes))
            off = np.abs(factors(self.weight, self.constant, axes).ravel() - 1)
            out = off * squares > _DEVIATIONS * noise + _CUT * squares
            if out.any():
                rows = np.flatnonzero(out)
                own = factors(self.weight, self.constant, axes).ravel()[rows]
                text = "{rows}: besides rounding, values are multiplied by {least:.6g} to {most:.6g}."
                facts = {"rows": describe_rows(axis, rows, len(out)), "least": own.min(), "most": own.max()}
                return Change(Cause.SCALED_VALUES, text, {"axis": axis}, facts)
        return None


def rounded_weights(
    model: Any,
    constants: Mapping[str, Array],
    dequantized: tuple[LazyArrays, LazyArrays],
    foldings: Sequence[Folding] = (),
) -> tuple[StoredWeights, list[WeightFault]]:
    """Returns how many of a model's weights an artifact stores, and the weights that differ by more than rounding.

    Each weight is compared with the constant of its name, or else with the constant that has most of its values. A
    float constant may differ by rounding to its type, or by a step of the grid of its values. An integer constant may
    differ by a step of its scale. The factor of each of its lines may differ by the effect of such rounding.

    Args:
        model: The Keras model.
        constants: The numeric constants of the artifact, by name.
        dequantized: The values of integer constants, and the steps of their scales, by name.
        foldings: The normalizations that are folded into the weights of layers, see `recorded_foldings`.
    """
    numbers, steps = dequantized
    every = [*(name for name in constants if name not in numbers), *numbers]
    values = LazyArrays(every, lambda name: numbers[name] if name in numbers else constants[name])
    pairs = WeightPairs(model, values, foldings, numbers)
    return pairs.count((path, _change(path, fit, pairs, steps)) for path, fit in _stored_fits(pairs, steps))


def integer_weights(
    model: Any, dequantized: tuple[LazyArrays, LazyArrays], foldings: Sequence[Folding] = ()
) -> Iterator[WeightFault]:
    """Yields the kernels and tables that an artifact stores as integers, each with its damage or else its rounding.

    Args:
        model, dequantized, foldings: As in `rounded_weights`.
    """
    numbers, steps = dequantized
    pairs = WeightPairs(model, numbers, foldings, numbers)
    for path, fit in _stored_fits(pairs, steps) if numbers else ():
        if fit.weight.ndim > 1:  # the few integers of a bias in int32 fit the scales of other formats, too
            yield pairs.fault(path, fit.change or fit.rounding)


def _stored_fits(pairs: WeightPairs, steps: Mapping[str, Array]) -> Iterator[tuple[str, _Fit]]:
    """Yields the weights that an artifact stores, each with its path and its best fit."""
    is_folded = any(path.endswith("moving_variance") and path not in pairs.named for path in pairs.weights)
    for path, weight in pairs.weights.items():
        forms, is_named = pairs.forms(path, weight), path in pairs.named
        fits = (fit for form in forms for fit in _fits(form, path, pairs, steps))
        fit = max(fits, key=lambda each: each.share, default=None)
        is_whole = fit is not None and fit.share == 1 and np.ptp(fit.weight) > 0
        if fit is not None and (is_whole or fit.is_telling or (is_named and (not is_folded or fit.share == 1))):
            yield path, fit  # a converter has folded another weight, or stores it in another form


def _fits(weight: Array, path: str, pairs: WeightPairs, steps: Mapping[str, Array]) -> Iterator[_Fit]:
    """Yields the fits of an array to the constants that may be the weight of a path, in each possible order of axes."""
    for name, constant in pairs.candidates(path):
        if constant.size == weight.size and (name in steps or is_float(constant.dtype)):
            units = forms_of(steps[name], weight.shape) if name in steps else itertools.repeat(None)
            yield from map(partial(_fit, weight), forms_of(constant, weight.shape), units)


def _change(path: str, fit: _Fit, pairs: WeightPairs, steps: Mapping[str, Array]) -> Change | None:
    """Returns the change of a weight beside rounding; None without one."""
    change = fit.change
    if change is None or fit.is_telling:
        return change

    def has(other: Array) -> bool:
        return any(each.share == 1 and each.is_telling for each in _fits(other, path, pairs, steps))

    return pairs.another_weight(path, fit.weight.shape, has) or change


def _fit(weight: Array, constant: Array, step: Array | None) -> _Fit:
    """Returns the fit of a weight to a constant of equal shape, with the tolerance of the constant's format."""
    wide, other = weight.astype(np.float64), constant.astype(np.float64)
    unit = _ROUNDED_TWICE * EPSILON["float32"] * np.abs(wide)
    if step is not None:
        allowed = _A_STEP * step + unit
    elif constant.dtype.name in HALF:
        allowed = np.maximum(EPSILON[constant.dtype.name] * np.abs(wide), _LEAST_HALF)
    else:
        allowed = _allowed_of_grid(wide, other, unit)
    return _Fit(wide, other, allowed, step)


def _allowed_of_grid(weight: Array, constant: Array, unit: Array) -> Array:
    """Returns the tolerance of a weight whose constant has wide floats, though its values may be rounded."""
    if (np.abs(weight - constant) <= unit).all():
        return unit
    for name in reversed(HALF):  # bfloat16 first, since float16 also represents most of its values
        with np.errstate(over="ignore", invalid="ignore"):
            is_held = constant.astype(as_dtype(name)).astype(np.float64) == constant
        if 2 * is_held.sum() > constant.size:
            return np.maximum(EPSILON[name] * np.abs(weight), _LEAST_HALF)
    change = find_change(weight, constant)
    is_grid = change is not None and change.cause.is_rounding  # the grid then explains every difference
    return np.full(weight.shape, np.inf) if is_grid else unit
