"""Numbers of a layer fitted to the artifact's numbers."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from keras_pe.export.model.watch.state import state_left_alone
from keras_pe.export.parity.diagnosis.again import shown
from keras_pe.export.parity.diagnosis.probe import LayerFault
from keras_pe.export.results import Array

_STEPS = 6
_TELLING = 4  # values that must be wrong: fewer are met by chance


def fit_to_fault(fault: LayerFault, values: Sequence[float], compute: Callable[..., Array]) -> tuple[float, ...]:
    """Returns the numbers with which a layer comes nearest to what the artifact holds; none where they have no say.

    Args:
        fault: The layer and its output.
        values: The numbers that it has.
        compute: Returns what the layer gives with some numbers.
    """
    seen = fault.through or fault
    if seen.actual is None:
        return ()

    def computed(*numbers: float) -> Array:
        result = shown(fault, compute(*numbers))
        assert result is not None
        return result

    try:
        with state_left_alone(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fitted(computed, values, seen.expected, seen.actual) or ()
    except Exception:  # whatever a layer raises: these are no numbers that it takes
        return ()


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
    now, at = expected.astype(np.float64), np.array(values, np.float64)
    for _ in range(_STEPS):
        steps = np.where(at == 0, 1e-2, 1e-2 * np.abs(at))
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
