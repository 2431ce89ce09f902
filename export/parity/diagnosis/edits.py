"""Edits of a call as functions of it, which a site proposes in one case, and the numbers that fit them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.results import Array, Cause

Compute = Callable[[LayerFault], Array | None]
"""Returns what a call would return; None where that is no output of its shape."""

_STEPS = 6
_TELLING = 4  # values that must be wrong: fewer are met by chance
_SEEN = 1e-5  # of the largest value: less of a change is rounding
_LARGEST_STEP = 1e-2  # of a number that is too small to be seen to move by a part of itself


@dataclass(frozen=True)
class Edit:
    """One thing changed about a call.

    Attributes:
        cause: What it is called.
        said: What is changed, as in "with epsilon=0.1 instead of 0.001"; of an output, what stands there instead.
        compute: What the call would return, in whatever case it was made.
        is_output: Whether it is the output that is changed, and the layer is not called.
        of: What is called.
    """

    cause: Cause
    said: str
    compute: Compute
    is_output: bool = False
    of: str = "the layer"

    def __str__(self) -> str:
        if self.is_output:
            return f"The artifact holds {self.said}."
        return f"{self.said[:1].upper()}{self.said[1:]} {self.of} gives the artifact's numbers."


@dataclass(frozen=True)
class NumericEdit:
    """Numbers of a call that are to be found.

    Attributes:
        start: What they are.
        compute: Returns what the call returns with others.
        cause: Returns what it is called when some of them are others.
        said: Returns how that is said, with each number as a text.
        is_output: As in `Edit`.
    """

    start: Mapping[str, float]
    compute: Callable[[LayerFault, Mapping[str, float]], Array | None]
    cause: Callable[[list[str]], Cause]
    said: Callable[[Mapping[str, str]], str]
    is_output: bool = False

    def edit(self, numbers: Mapping[str, float]) -> Edit:
        """Returns the edit for numbers that were found."""
        said = self.said({name: f"{value:.6g}" for name, value in numbers.items()})
        return Edit(self.cause(list(numbers)), said, lambda fault: self.compute(fault, numbers), self.is_output)


Edits = Iterator[Edit | NumericEdit]
Site = Callable[[LayerFault], Edits]
"""Where something may have been changed."""


def factor(
    cause: Cause, what: str, compute: Callable[[LayerFault, float], Array], *, is_output: bool = False
) -> NumericEdit:
    """Returns the edit that is an array times a number.

    Args:
        cause: What it is called.
        what: Which array, as in "with 'mix/kernel'".
        compute: Returns what the call returns with the array times a number.
        is_output: As in `Edit`.
    """
    return NumericEdit(
        {"factor": 1.0},
        lambda fault, numbers: compute(fault, numbers["factor"]),
        lambda _: cause,
        lambda numbers: f"{what} times {numbers['factor']}",
        is_output,
    )


def fitted(
    compute: Callable[..., Array], values: Sequence[float], expected: Array, actual: Array
) -> tuple[float, ...] | None:
    """Returns the numbers with which a layer comes nearest to what the artifact holds; None where they have no say.

    Gauss-Newton steps on the sum of squares: one is enough where the output is linear in the numbers.

    Args:
        compute: Returns what the layer gives with some numbers.
        values: The numbers that it has.
        expected: What it gives with these.
        actual: What the artifact holds.
    """
    if np.count_nonzero(expected != actual) < _TELLING * len(values):
        return None
    now, start = expected.astype(np.float64), np.abs(np.array(values, np.float64))
    at = np.array(values, np.float64)
    for _ in range(_STEPS):
        sizes = np.maximum(np.abs(at), start)  # a number that nears zero still has to be seen to move
        steps = np.where(sizes == 0, _LARGEST_STEP, 1e-2 * sizes)
        slopes = np.stack([_slope(compute, at, i, step, now) for i, step in enumerate(steps)], -1)
        if not np.isfinite(slopes).all() or not slopes.any():
            return None
        change = np.linalg.lstsq(slopes, (actual - now).ravel())[0]
        at = at + change
        now = compute(*at).astype(np.float64)
        if (np.abs(change) <= 1e-4 * np.abs(at)).all():
            break
    return tuple(map(float, at))


def _slope(compute: Callable[..., Array], at: Array, index: int, step: float, now: Array) -> Array:
    """Returns what the values change by with one number, over a step that can be seen, such as that of an epsilon."""
    seen = _SEEN * np.abs(now).max(initial=0.0)
    while True:
        further = at.copy()
        further[index] += step
        change: Array = compute(*further).astype(np.float64) - now
        if step >= _LARGEST_STEP or np.abs(change).max(initial=0.0) > seen:
            return change.ravel() / step
        step = min(100 * step, _LARGEST_STEP)
