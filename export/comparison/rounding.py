"""How far rounding alone takes a model's answer: the distance from the same model in float64, and what it allows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_FACTOR = 8.0
"""A runtime passes while its error is at most this many times the noise floor.

Two sound float32 runtimes add the same terms in another order. Over the sound models of the test suite the largest
factor seen stays under half of this, and a weight that is off by 1e-3 gives thousands.
"""

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next larger value of each type."""

_BEYOND = {"float32": 2.0**128, "float16": 2.0**16, "bfloat16": 2.0**128}
"""What is too large for each type; no float64 is for its own."""

_LEAST_ULPS = 4
"""The noise floor is at least this many units of the largest value: Keras may be right by luck in a small case."""


def noise_floor(expected: NDArray[Any], truth: NDArray[Any]) -> float:
    """Returns the error that Keras itself makes: the largest `|expected - truth|`, or a few units of rounding.

    Args:
        expected: Keras' output in the model's own precision.
        truth: The same from the float64 rebuild.
    """
    wide = expected.astype(np.float64)
    finite = np.isfinite(truth) & np.isfinite(wide) & ~is_a_limit(expected, truth)
    if not finite.any():
        return 0.0
    error = np.abs(wide[finite] - truth[finite]).max()
    unit = min(EPSILON[expected.dtype.name], EPSILON["float32"])  # half-precision models export through float32
    return float(max(error, _LEAST_ULPS * unit * np.abs(truth[finite]).max()))


def is_a_limit(expected: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns where Keras answers with the limit of its type, as the maximum of nothing is: the rebuild has another."""
    with np.errstate(invalid="ignore"):
        is_beyond = np.abs(truth) >= _BEYOND.get(expected.dtype.name, np.inf)
    limited: NDArray[np.bool_] = is_beyond & np.isfinite(truth) & np.isfinite(expected.astype(np.float64))
    return limited
