"""How far two runtimes may be apart where Keras' own error is not known: a share of the largest value, by dtype."""

import numpy as np

from keras_pe.export.comparison.rounding import EPSILON
from keras_pe.export.results import Array

RELATIVE = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""What is allowed without a float64 rebuild, as a share of the largest magnitude of the output (at least 1).

float32: a hundred roundings' worth; float16 and bfloat16: four units in the last place. Integers, booleans and texts
must be equal.
"""


def is_float(dtype: np.dtype) -> bool:
    """Whether the type is a float of any kind; bfloat16 is not one to NumPy."""
    return dtype.name in EPSILON


def flat_tolerance(expected: Array) -> float:
    """Returns the absolute difference allowed where there is no float64 rebuild."""
    if not is_float(expected.dtype):
        return 0.0
    wide = expected.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    return float(RELATIVE[expected.dtype.name] * max(1.0, np.abs(finite).max(initial=0.0)))


def epsilon(dtype: np.dtype) -> float:
    """Returns the distance from 1 to the next larger value of the type."""
    return EPSILON[dtype.name]
