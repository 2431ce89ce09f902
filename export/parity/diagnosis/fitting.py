"""A number of a layer fitted to the artifact's numbers."""

from collections.abc import Callable

import numpy as np

from keras_pe.export.parity.results import Array

_STEPS = 6
_TELLING = 4  # values that must be wrong: fewer are met by chance


def fitted(compute: Callable[[float], Array], value: float, expected: Array, actual: Array) -> float | None:
    """Returns the number with which a layer comes nearest to what the artifact holds; None where it has no such say.

    Gauss-Newton steps on the sum of squares: one is enough where the output is linear in the number.

    Args:
        compute: Returns what the layer gives with a number.
        value: The number that it has.
        expected: What it gives with that.
        actual: What the artifact holds.
    """
    if np.count_nonzero(expected != actual) < _TELLING:
        return None
    now, at = expected.astype(np.float64), value
    for _ in range(_STEPS):
        step = 1e-2 * abs(at) or 1e-2
        slope = (compute(at + step).astype(np.float64) - now) / step
        weight = float((slope * slope).sum())
        if not np.isfinite(weight) or weight == 0:
            return None
        change = float((slope * (actual - now)).sum()) / weight
        at += change
        now = compute(at).astype(np.float64)
        if abs(change) <= 1e-4 * abs(at):
            break
    return at
