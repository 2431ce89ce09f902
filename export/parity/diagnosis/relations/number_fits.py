"""Fits the numbers of a function to an array."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_pe.export.results import Array

_FITTED = 2  # least number of wrong values in one case for each number that is fitted to them
_STEPS = 6  # steps of the fit
_VISIBLE = 1e-5  # least change relative to the largest value; smaller changes are rounding
_LARGEST_STEP = 1e-2  # step of a number for which a relative step would have no visible effect


def fit_numbers(
    compute: Callable[..., Array], values: Sequence[float], expected: Array, actual: Array
) -> tuple[float, ...] | None:
    """Returns the numbers for which a layer comes nearest to the artifact; None if they have no effect.

    The fit uses Gauss-Newton steps on the sum of squares. One step suffices if the output is linear in the numbers.

    Args:
        compute: Returns the layer's output with some numbers.
        values: The model's numbers.
        expected: The output with the model's numbers.
        actual: The artifact's output.
    """
    if np.count_nonzero(expected != actual) < _FITTED * len(values):
        return None
    now, start = expected.astype(np.float64), np.abs(np.array(values, np.float64))
    at = np.array(values, np.float64)
    for _ in range(_STEPS):
        sizes = np.maximum(np.abs(at), start)  # keeps the step visible for a number near zero
        steps = np.where(sizes == 0, _LARGEST_STEP, 1e-2 * sizes)
        if not (np.isfinite(at).all() and np.isfinite(now).all()):
            return None
        slopes = np.stack([_slope(compute, at, i, step, now) for i, step in enumerate(steps)], -1)
        if not np.isfinite(slopes).all() or not slopes.any():
            return None
        change = np.linalg.lstsq(slopes, (actual - now).ravel())[0]
        at = at + change
        now = compute(*at.tolist()).astype(np.float64)
        if (np.abs(change) <= 1e-4 * np.abs(at)).all():
            break
    return tuple(map(float, at))


def _slope(compute: Callable[..., Array], at: Array, index: int, step: float, now: Array) -> Array:
    """Returns the derivative by one number, over a step large enough to be visible, as for an epsilon."""
    seen = _VISIBLE * np.abs(now).max(initial=0.0)
    while True:
        further = at.copy()
        further[index] += step
        change: Array = compute(*further.tolist()).astype(np.float64) - now
        if step >= _LARGEST_STEP or np.abs(change).max(initial=0.0) > seen:
            return change.ravel() / step
        step = min(100 * step, _LARGEST_STEP)
