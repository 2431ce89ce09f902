"""A change of an array as a value: its cause and its numbers, of which its sentence is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.results import Array, Cause

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

    def agrees(self, other: "Change | None") -> bool:
        """Whether another case shows the same change: of one cause, with equal parameters, factors to a thousandth."""
        if other is None or other.cause != self.cause or other.parameters.keys() != self.parameters.keys():
            return False
        pairs = ((value, other.parameters[name]) for name, value in self.parameters.items())
        return all(np.isclose(a, b, rtol=1e-3, atol=0) if isinstance(a, float) else a == b for a, b in pairs)


Relation = Callable[[Array, Array, float], Change | None]
"""Takes what an array should be and what it is, both float64 and finite where the first is, and the difference that
rounding may leave; returns the change, None where it is another one."""


def is_same(one: Array, other: Array, tolerance: float = 0.0) -> bool:
    """Whether two arrays of one shape are the same but for rounding, or for the tolerance where that is more."""
    allowed = max(tolerance, ROUNDING * np.abs(one).max(initial=0.0))
    return bool(np.abs(one - other).max(initial=0.0) <= allowed)
