"""Relations between an expected and an actual array: pure functions that return a `Change`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.comparison.differences import absolute_difference
from keras_pe.export.comparison.float_types import largest
from keras_pe.export.results import Array, Cause, OtherValue

ROUNDING = 2.0**-21
"""The largest error after an explanation, relative to the largest value."""


@dataclass(frozen=True)
class Change:
    """The change of an array.

    Attributes:
        cause: The kind of change.
        template: A sentence with the names of the numbers in braces.
        parameters: The numbers that define the change, such as the factor. They are equal in every case.
        facts: Other numbers of the sentence, such as how many values differ.
    """

    cause: Cause
    template: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format(**self.parameters, **self.facts)

    @property
    def values(self) -> tuple[OtherValue, ...]:
        """The parameters in the form of a finding, without values of the model."""
        return tuple(OtherValue(name, None, plain(value)) for name, value in self.parameters.items())

    def agrees(self, other: "Change | None") -> bool:
        """Whether another case shows the same change: equal cause and parameters, factors to a thousandth."""
        if other is None or other.cause != self.cause or other.parameters.keys() != self.parameters.keys():
            return False
        pairs = ((value, other.parameters[name]) for name, value in self.parameters.items())
        return all(np.isclose(a, b, rtol=1e-3, atol=0) if isinstance(a, float) else a == b for a, b in pairs)


def plain(value: Any) -> Any:
    """Returns a NumPy scalar as a Python number, and a list or an array as a tuple, so that the value has a hash."""
    if isinstance(value, np.ndarray):
        return tuple(map(plain, value)) if value.ndim else plain(value[()])
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python or NumPy other than a boolean."""
    return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)


def is_short(value: Any) -> bool:
    """Whether a number has at most four digits, as a person writes it."""
    return not is_number(value) or bool(np.isclose(float(f"{value:.4g}"), value, rtol=ROUNDING, atol=0.0))


Relation = Callable[[Array, Array, float], Change | None]
"""A function of the expected and the actual array, both float64, and a tolerance. The actual array is finite where the
expected one is. It returns the change, or None if the arrays have another relation."""


def is_same(one: Array, other: Array, tolerance: float = 0.0) -> bool:
    """Whether two arrays of equal shape differ by at most rounding, or the tolerance if that is larger.

    NaN equals NaN, and an infinity equals the same infinity.
    """
    difference = absolute_difference(one, other).max(initial=0.0)
    return bool(difference <= max(tolerance, ROUNDING * largest(one, 0.0)))


def close(actual: Array, expected: Array, tolerance: float) -> bool:
    """Whether two arrays have equal shapes and differ by at most a tolerance, NaN and infinities included."""
    return actual.shape == expected.shape and distance(actual, expected) <= tolerance


def distance(actual: Array, expected: Array) -> float:
    """Returns the largest absolute difference; infinity if shapes or texts differ or a NaN meets a number."""
    if actual.shape != expected.shape or not {actual.dtype.kind, expected.dtype.kind} <= set("fiubV"):
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    return float(absolute_difference(expected, actual).max(initial=0.0))


def distance_where_finite(actual: Array, expected: Array) -> float:
    """Returns the largest absolute difference of two arrays of equal shape, over the values that are finite in both."""
    if not {actual.dtype.kind, expected.dtype.kind} <= set("fiubV"):
        return 0.0
    difference = absolute_difference(expected, actual)
    return float(difference[np.isfinite(difference)].max(initial=0.0))


def all_but(axis: int | None, array: Array) -> tuple[int, ...]:
    """Returns the axes of an array without one."""
    return tuple(other for other in range(array.ndim) if other != axis)


def factors(one: Array, other: Array, axes: tuple[int, ...]) -> Array:
    """Returns the factor by which one array is nearest to another, for each index outside of some axes."""
    weight = (one * one).sum(axis=axes, keepdims=True)
    found: Array = (one * other).sum(axis=axes, keepdims=True) / np.where(weight > 0, weight, 1.0)
    return found
