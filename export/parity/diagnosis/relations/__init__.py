"""What may have become of an array: pure functions of what it should be and what it is, which find a `Change`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.comparison.compare import absolute_difference
from keras_pe.export.comparison.law import largest
from keras_pe.export.results import Array, Cause, OtherValue

ROUNDING = 2.0**-21
"""Of the largest value: what is left when something else is explained."""


@dataclass(frozen=True)
class Change:
    """What has become of an array.

    Attributes:
        cause: The kind of change.
        template: A sentence with the names of the numbers in braces.
        parameters: What tells the change from others of its kind, such as the factor: the same in every case.
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
        """The parameters as a finding keeps them: the model has none of them."""
        return tuple(OtherValue(name, None, _plain(value)) for name, value in self.parameters.items())

    def agrees(self, other: "Change | None") -> bool:
        """Whether another case shows the same change: of one cause, with equal parameters, factors to a thousandth."""
        if other is None or other.cause != self.cause or other.parameters.keys() != self.parameters.keys():
            return False
        pairs = ((value, other.parameters[name]) for name, value in self.parameters.items())
        return all(np.isclose(a, b, rtol=1e-3, atol=0) if isinstance(a, float) else a == b for a, b in pairs)


def _plain(value: Any) -> Any:
    """Returns a number of NumPy as one of Python, and a list as a tuple."""
    return tuple(value) if isinstance(value, list) else value.item() if isinstance(value, np.generic) else value


Relation = Callable[[Array, Array, float], Change | None]
"""Takes what an array should be and what it is, both float64 and finite where the first is, and the difference that
rounding may leave; returns the change, None where it is another one."""


def is_same(one: Array, other: Array, tolerance: float = 0.0) -> bool:
    """Whether two arrays of one shape differ by rounding at most, or by the tolerance if that is larger.

    NaN equals NaN, and an infinity the same infinity.
    """
    difference = absolute_difference(one, other).max(initial=0.0)
    return bool(difference <= max(tolerance, ROUNDING * largest(one, 0.0)))


def close(actual: Array, expected: Array, tolerance: float) -> bool:
    """Whether two arrays have one shape and differ by no more than is allowed, NaN and infinities included."""
    return actual.shape == expected.shape and distance(actual, expected) <= tolerance


def distance(actual: Array, expected: Array) -> float:
    """Returns the largest absolute difference; infinity where shapes or texts differ or a NaN meets a number."""
    if actual.shape != expected.shape or not {actual.dtype.kind, expected.dtype.kind} <= set("fiubV"):
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    return float(absolute_difference(expected, actual).max(initial=0.0))


def distance_where_finite(actual: Array, expected: Array) -> float:
    """Returns the largest absolute difference of two arrays of one shape, over the values that are finite in both."""
    if not {actual.dtype.kind, expected.dtype.kind} <= set("fiubV"):
        return 0.0
    difference = absolute_difference(expected, actual)
    return float(difference[np.isfinite(difference)].max(initial=0.0))


def all_but(axis: int | None, array: Array) -> tuple[int, ...]:
    """Returns the axes of an array but for one."""
    return tuple(other for other in range(array.ndim) if other != axis)


def factors(one: Array, other: Array, axes: tuple[int, ...]) -> Array:
    """Returns the number with which one array is nearest to another, for each index that some axes leave."""
    weight = (one * one).sum(axis=axes, keepdims=True)
    found: Array = (one * other).sum(axis=axes, keepdims=True) / np.where(weight > 0, weight, 1.0)
    return found
