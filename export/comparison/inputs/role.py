"""The role of an input, which determines the values that a model takes there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from keras_pe.export.comparison.inputs.borders import Borders
from keras_pe.export.model.watch.known_values import Vocabulary


@dataclass(frozen=True)
class Role:
    """The role of an input, and its valid values.

    Attributes:
        role: "values", "ids" (rows of an embedding), "positions" or "start" (of a position encoding), "entries" (of a
            vocabulary).
        low: The least valid value; None without a bound.
        high: The first value above `low` that is not valid; None without a bound.
        vocabulary: The vocabulary of a lookup.
        below: The dynamic dimension whose size replaces `high`, for an index into another input.
        borders: The values at which the model's decision changes.
        is_wide: Whether the model takes integers beyond each narrower type.
    """

    role: str
    low: float | None = None
    high: float | None = None
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    below: str | None = None
    borders: Borders = field(default_factory=Borders)
    is_wide: bool = False

    def tighten(self, other: "Role | None") -> "Role":
        """Returns the role whose values are valid for both layers that an input reaches."""
        if other is None or other.role != self.role:
            return self if other is None or other.role == "values" else other
        low = max(r.low for r in (other, self) if r.low is not None)
        high = min(r.high for r in (other, self) if r.high is not None)
        return Role(self.role, low, high)


def range_roles(ranges: Mapping[str, tuple[float, float]], found: Mapping[str, Role]) -> dict[str, Role]:
    """Returns the roles with the user's ranges: the least value, and the first value past the high end."""
    given = {}
    for name, (low, high) in ranges.items():
        own = found.get(name, Role("values"))
        given[name] = Role(own.role, low, high, borders=own.borders.within(low, high))
    return {**found, **given}
