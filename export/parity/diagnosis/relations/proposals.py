"""What an array may have become, where only what is computed from it can be seen: each is tried."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from keras_pe.export.results import Array, Cause

_LIMITS = ((0.0, 1.0), (-1.0, 1.0), (0.0, 6.0), (0.0, np.inf))  # at which values are usually cut


@dataclass(frozen=True)
class Proposal:
    """What an array may have become.

    Attributes:
        cause: What that is called.
        template: How it is said, with the array's name in braces.
        array: The array.
    """

    cause: Cause
    template: str
    array: Array


def neutral(array: Array) -> Iterator[Proposal]:
    """An array that was left out: where it is added, and where it is multiplied with."""
    yield Proposal(Cause.MISSING_VALUES, "{} at zero", np.zeros_like(array))
    yield Proposal(Cause.MISSING_VALUES, "{} at one", np.ones_like(array))


def doubled(array: Array) -> Iterator[Proposal]:
    """An array that is added twice."""
    yield Proposal(Cause.ADDED_TWICE, "{} added twice", 2 * array)


def exchanged_axes(array: Array) -> Iterator[Proposal]:
    """An array with two axes of one size exchanged."""
    for one, other in itertools.combinations(range(array.ndim), 2):
        if array.shape[one] == array.shape[other]:
            template = f"axes {one} and {other} of {{}} exchanged"
            yield Proposal(Cause.TRANSPOSED_AXES, template, array.swapaxes(one, other))


def backwards(array: Array, first_axis: int = 0) -> Iterator[Proposal]:
    """An array that runs backwards along an axis."""
    for axis in range(first_axis, array.ndim):
        yield Proposal(Cause.REVERSED_VALUES, f"{{}} reversed along axis {axis}", np.flip(array, axis))


def powers(array: Array) -> Iterator[Proposal]:
    """A variance for a deviation, and the reverse."""
    if (array > 0).all():
        yield Proposal(Cause.CHANGED_VALUES, "the root of {}", np.sqrt(array))
        yield Proposal(Cause.CHANGED_VALUES, "the square of {}", array**2)


def clipped(array: Array) -> Iterator[Proposal]:
    """An array cut at limits that are usual."""
    for low, high in _LIMITS:
        yield Proposal(Cause.CLIPPED_INPUT, f"{{}} cut at {low:g} and {high:g}", array.clip(low, high))


def stepped(array: Array, last: int) -> Iterator[Proposal]:
    """Integers that are counted from one more or less, up to the last that is taken."""
    for step, said in ((1, "plus"), (-1, "minus")):
        yield Proposal(Cause.SHIFTED_INPUT, f"{{}} {said} 1", (array.astype(np.int64) + step).clip(0, last))
