"""Numbers of a computation that bring it nearest to given values."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_pe.export.results import Array

_STEPS = 6
_TELLING = 4  # values that must be wrong: fewer are met by chance


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
        steps = np.where(sizes == 0, 1e-2, 1e-2 * sizes)
        moved = [compute(*(at + step)).astype(np.float64) for step in np.diag(steps)]
        slopes = np.stack([(each - now).ravel() for each in moved], -1) / steps
        if not np.isfinite(slopes).all() or not slopes.any():
            return None
        change = np.linalg.lstsq(slopes, (actual - now).ravel())[0]
        at = at + change
        now = compute(*at).astype(np.float64)
        if (np.abs(change) <= 1e-4 * np.abs(at)).all():
            break
    return tuple(map(float, at))
