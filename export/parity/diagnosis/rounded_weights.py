"""Compares the weights of an artifact that differs on purpose. Each may differ by rounding to its storage format."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.comparison.float_types import EPSILON, is_float
from keras_pe.export.model.stored_weights import Folding
from keras_pe.export.parity.diagnosis.relations import Change, all_but, factors
from keras_pe.export.parity.diagnosis.relations.detection import OF_ROUNDED, find_change
from keras_pe.export.parity.diagnosis.relations.rounding import OFF
from keras_pe.export.parity.diagnosis.relations.scaling import describe_rows
from keras_pe.export.parity.diagnosis.weight_matching import TELLING, forms_of
from keras_pe.export.parity.diagnosis.weights import (
    WeightFault,
    as_stored,
    constants_by_name,
    counted_weights,
    float_variables,
    packed_weights,
)
from keras_pe.export.results import HALF, Array, Cause, StoredWeights
from keras_pe.export.runtimes.runtime import LazyArrays, as_dtype

_ROUNDED_TWICE = 4  # units of float32 by which a converter may have changed a constant in another computation
_LEAST_HALF = 1.2e-7  # converters to float16 replace smaller values, which have few digits in float16
_A_STEP = 1.01  # largest error in steps of integers: half a step by rounding, the rest by zero points and clipping
_IN_LINE = 16  # least number of values that determine the factor of a line
_DEVIATIONS = 6  # largest error of a line's factor, in standard deviations of rounding
_INT4 = 16  # the numbers that 4 bits distinguish
_CUT = 0.02  # largest relative change of a factor by clipping the largest value of each block
_ENDING = re.compile(r"(_quantized|_DQ)?(_Q\d+(G\d+)?)?$")


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
    variables, layer_of = float_variables(model)
    weights, stored = as_stored(variables, foldings), _Constants(LazyArrays.of(constants), *dequantized)
    found, faults = set[str](), list[WeightFault]()
    for path, fit, names, is_named in _stored_fits(model, weights, stored):
        found.add(path)
        change = fit.change
        if change is not None and not fit.is_telling:
            change = _another_weight(path, fit, weights, stored, names) or change
        if change is not None:
            faults.append(WeightFault(layer_of[path], path, change, is_certain=True, is_named=is_named))
    return counted_weights(variables, found, foldings), faults


def integer_weights(
    model: Any, dequantized: tuple[LazyArrays, LazyArrays], foldings: Sequence[Folding] = ()
) -> Iterator[WeightFault]:
    """Yields the kernels and tables that an artifact stores as integers, each with its damage or else its rounding.

    Args:
        model, dequantized, foldings: As in `rounded_weights`.
    """
    variables, layer_of = float_variables(model)
    stored = _Constants(LazyArrays.of({}), *dequantized)
    for path, fit, _, is_named in _stored_fits(model, as_stored(variables, foldings), stored) if stored.names else ():
        if fit.weight.ndim > 1:  # the few integers of a bias in int32 fit the scales of other formats, too
            change = fit.change or fit.rounding
            yield WeightFault(layer_of[path], path, change, is_certain=True, is_named=is_named)


def _stored_fits(
    model: Any, weights: Mapping[str, Array], stored: "_Constants"
) -> Iterator[tuple[str, _Fit, Sequence[str], bool]]:
    """Yields the weights that an artifact stores.

    Each comes with its path, its best fit, the names of the tried constants, and whether a constant has its name.
    """
    packs, named = packed_weights(model), stored.find_by_name(weights)
    free = [name for name in stored.names if name not in named.values()]
    is_folded = any(path.endswith("moving_variance") and path not in named for path in weights)
    for path, weight in weights.items():
        is_named = path in named
        forms = [packs[path], weight] if path in packs else [weight]
        names = [named[path]] if is_named else free
        fits = [fit for form in forms for name in names for fit in stored.fits(form, name)]
        fit = max(fits, key=lambda each: each.share, default=None)
        is_whole = fit is not None and fit.share == 1 and np.ptp(fit.weight) > 0
        if fit is not None and (is_whole or fit.is_telling or (is_named and (not is_folded or fit.share == 1))):
            yield path, fit, names, is_named  # a converter has folded another weight, or stores it in another form


def _another_weight(
    path: str, fit: _Fit, weights: Mapping[str, Array], stored: "_Constants", names: Sequence[str]
) -> Change | None:
    """Returns the change if the constant of a weight has the values of another weight of equal shape, else None."""
    for other, weight in weights.items():
        is_alike = other != path and weight.shape == fit.weight.shape
        fits = (each for name in names for each in stored.fits(weight, name)) if is_alike else ()
        if any(each.share == 1 and each.is_telling for each in fits):
            return Change(Cause.ANOTHER_WEIGHT, "It has the values of {other!r}.", {"other": other})
    return None


class _Constants:
    """The constants of an artifact: floats, and dequantized integers with their steps."""

    def __init__(self, constants: LazyArrays, numbers: LazyArrays, steps: LazyArrays) -> None:
        self._constants, self._numbers, self._steps = constants, numbers, steps
        self.names = [*(name for name in constants if name not in numbers), *numbers]

    def find_by_name(self, weights: Mapping[str, Any]) -> dict[str, str]:
        """Returns the constants with the name of a weight, by the weight's path.

        Quantizers append a suffix such as `_quantized` or `_Q4` to the name.
        """
        found = constants_by_name(weights, [name for name in self.names if name not in self._numbers])
        bases = {_ENDING.sub("", name): name for name in self._numbers}
        return {path: bases[base] for path, base in constants_by_name(weights, bases).items()} | found

    def fits(self, weight: Array, name: str) -> Iterator[_Fit]:
        """Yields the fits of a weight to a constant of equal size, for each order of axes that gives equal shapes."""
        is_whole = name in self._numbers
        constant = self._numbers[name] if is_whole else self._constants[name]
        if constant.size != weight.size or (not is_whole and not is_float(constant.dtype)):
            return
        steps = forms_of(self._steps[name], weight.shape) if is_whole else itertools.repeat(None)
        for turned, step in zip(forms_of(constant, weight.shape), steps, strict=False):
            yield _fit(weight, turned, step)


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
