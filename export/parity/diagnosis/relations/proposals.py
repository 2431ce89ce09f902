"""What an array may have become, where only what is computed from it can be seen: pure functions that are tried."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from keras_pe.export.results import Array, Cause

_LIMITS = ((0.0, 1.0), (-1.0, 1.0), (0.0, 6.0), (0.0, np.inf))  # at which values are usually cut


@dataclass(frozen=True)
class Proposal:
    """What an array may have become.

    Attributes:
        cause: What that is called.
        template: How it is said, with the array's name in braces.
        change: Makes it of what the array should be.
    """

    cause: Cause
    template: str
    change: Callable[[Array], Array]


AT_ZERO = Proposal(Cause.MISSING_VALUES, "{} at zero", np.zeros_like)
AT_ONE = Proposal(Cause.MISSING_VALUES, "{} at one", np.ones_like)
NEUTRAL = (AT_ZERO, AT_ONE)
"""An array that was left out: where it is added, and where it is multiplied with."""

DOUBLED = Proposal(Cause.ADDED_TWICE, "{} added twice", lambda array: 2 * array)
FIRST_ROW = Proposal(
    Cause.REPEATED_ROW,
    "the first row of {} in the place of every row",
    lambda array: np.broadcast_to(array[:1], array.shape),
)


def exchanged_axes(array: Array) -> Iterator[Proposal]:
    """An array with two axes of one size exchanged."""
    for one, other in itertools.combinations(range(array.ndim), 2):
        if array.shape[one] == array.shape[other]:
            swapped = partial(np.swapaxes, axis1=one, axis2=other)
            yield Proposal(Cause.TRANSPOSED_AXES, f"axes {one} and {other} of {{}} exchanged", swapped)


def backwards(array: Array, first_axis: int = 0, cause: Cause = Cause.REVERSED_VALUES) -> Iterator[Proposal]:
    """An array that runs backwards along an axis."""
    for axis in range(first_axis, array.ndim):
        yield Proposal(cause, f"{{}} reversed along axis {axis}", partial(np.flip, axis=axis))


def powers(array: Array) -> Iterator[Proposal]:
    """A variance for a deviation, and the reverse."""
    if (array > 0).all():
        yield Proposal(Cause.CHANGED_VALUES, "the root of {}", np.sqrt)
        yield Proposal(Cause.CHANGED_VALUES, "the square of {}", np.square)


def clipped() -> Iterator[Proposal]:
    """An array cut at limits that are usual."""
    for low, high in _LIMITS:
        yield Proposal(
            Cause.CLIPPED_INPUT, f"{{}} cut at {low:g} and {high:g}", partial(np.clip, a_min=low, a_max=high)
        )


def stepped(last: int) -> Iterator[Proposal]:
    """Integers that are counted from one more or less, up to the last that is taken."""
    for step, said in ((1, "plus"), (-1, "minus")):
        yield Proposal(Cause.SHIFTED_INPUT, f"{{}} {said} 1", partial(_stepped, step=step, last=last))


def _stepped(array: Array, step: int, last: int) -> Array:
    return (array.astype(np.int64) + step).clip(0, last)
