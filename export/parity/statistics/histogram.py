"""A logarithmic histogram whose edges are floats, so that counts and merges are exact."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from keras_pe.display import Shown
from keras_pe.export.results import Array

_SHIFT = 49  # keeps the exponent of a float64 and three bits of its mantissa: steps of an eighth of an octave's width
STEP = 2.0**-3
"""The relative width of a step, at most."""


@dataclass(frozen=True)
class Bin:
    """One step of a histogram that has values.

    Attributes:
        low: Its lower edge, which is in it.
        high: Its upper edge, which is in it.
        count: How many values are in it.
    """

    low: float
    high: float
    count: int


@dataclass(frozen=True, repr=False)
class Histogram(Shown):
    """Counts of values that are 0 or more, infinity included.

    Attributes:
        counts: How many values are in each step; a step is the first bits of the float, which sort as the floats do.
    """

    computed: ClassVar[tuple[str, ...]] = ("bins",)

    counts: Mapping[int, int] = field(default_factory=dict, metadata={"published": False})

    def details(self) -> Mapping[str, str]:
        shares = {"median": 0.5, "largest": 1.0}
        return {"values": f"{self.total:,}", **{name: f"{self.quantile(share):.2g}" for name, share in shares.items()}}

    @classmethod
    def of(cls, values: Array) -> Self:
        """Counts an array; NaN must not be in it."""
        bits = np.ascontiguousarray(values, np.float64).view(np.int64) >> _SHIFT
        steps, counts = np.unique(bits, return_counts=True)
        return cls(dict(zip(steps.tolist(), counts.tolist(), strict=True)))

    @property
    def total(self) -> int:
        """How many values were counted."""
        return sum(self.counts.values())

    def merge(self, other: Self) -> Self:
        """Returns the counts of both."""
        return type(self)(dict(sorted((Counter(self.counts) + Counter(other.counts)).items())))

    def quantile(self, share: float) -> float:
        """Returns a value that at least this share of all values does not exceed; a step too large at most.

        Returns 0 where nothing was counted.
        """
        if not self.total:
            return 0.0
        needed = max(1, int(np.ceil(share * self.total)))
        steps = sorted(self.counts)
        reached = np.cumsum([self.counts[step] for step in steps])
        return _upper_edge(steps[int(np.searchsorted(reached, needed))])

    @property
    def bins(self) -> tuple[Bin, ...]:
        """The steps that have values, from the smallest."""
        return tuple(Bin(_lower_edge(step), _upper_edge(step), self.counts[step]) for step in sorted(self.counts))


def _lower_edge(step: int) -> float:
    return float(np.array(step << _SHIFT, np.int64).view(np.float64))


def _upper_edge(step: int) -> float:
    """Returns the largest float of the step; 0 for the step of 0, and infinity for its own."""
    if step == 0 or not np.isfinite(_lower_edge(step)):
        return _lower_edge(step)
    return float(np.array(((step + 1) << _SHIFT) - 1, np.int64).view(np.float64))
