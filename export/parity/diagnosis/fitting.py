"""Numbers of a computation that bring it nearest to given values."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_pe.export.results import Array

_STEPS = 6
_TELLING = 4  # values that must be wrong: fewer are met by chance
_SEEN = 1e-5  # of the largest value: less of a change is rounding
_LARGEST_STEP = 1e-2  # of a number that is too small to be seen to move by a part of itself


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
