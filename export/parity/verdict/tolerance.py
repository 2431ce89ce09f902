"""How far two runtimes may be apart: a small factor over Keras' own error where it is known, else by the dtype."""

import numpy as np

from keras_pe.export.parity.results import Array

MAX_FACTOR = 8.0
"""A runtime passes while its error is at most this many times the noise floor.

Two sound float32 runtimes add the same terms in another order. Over the sound models of the test suite the largest
factor seen stays under half of this, and a weight that is off by 1e-3 gives thousands.
"""

_LEAST_ULPS = 4
"""The noise floor is at least this many units of the largest value: Keras may be right by luck in a small case."""

RELATIVE = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""What is allowed without a float64 rebuild, as a share of the largest magnitude of the output (at least 1).

float32: a hundred roundings' worth; float16 and bfloat16: four units in the last place. Integers, booleans and texts
must be equal.
"""

_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def is_float(dtype: np.dtype) -> bool:
    """Whether the type is a float of any kind; bfloat16 is not one to NumPy."""
    return dtype.name in _EPSILON


def noise_floor(expected: Array, truth: Array) -> float:
    """Returns the error that Keras itself makes: the largest `|expected - truth|`, or a few units of rounding.

    Args:
        expected: Keras' output in the model's own precision.
        truth: The same from the float64 rebuild.
    """
    wide = expected.astype(np.float64)
    finite = np.isfinite(truth) & np.isfinite(wide)
    if not finite.any():
        return 0.0
    error = np.abs(wide[finite] - truth[finite]).max()
    unit = min(_EPSILON[expected.dtype.name], _EPSILON["float32"])  # half-precision models export through float32
    return float(max(error, _LEAST_ULPS * unit * np.abs(truth[finite]).max()))


def flat_tolerance(expected: Array) -> float:
    """Returns the absolute difference allowed where there is no float64 rebuild."""
    if not is_float(expected.dtype):
        return 0.0
    wide = expected.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    return float(RELATIVE[expected.dtype.name] * max(1.0, np.abs(finite).max(initial=0.0)))


def epsilon(dtype: np.dtype) -> float:
    """Returns the distance from 1 to the next larger value of the type."""
    return _EPSILON[dtype.name]
