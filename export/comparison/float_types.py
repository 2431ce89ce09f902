"""The float types, their limits, and the largest magnitude of an array."""

import numpy as np

from keras_pe.export.results import Array

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next larger value of each type."""

BEYOND = {"float32": 2.0**128, "float16": 2.0**16, "bfloat16": 2.0**128}
"""Values from this limit on overflow the type. No float64 value overflows float64."""

LEAST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}
"""The least value with all digits. Smaller values have its step, such as 2**-24 in float16."""


def is_float(dtype: np.dtype) -> bool:
    """Whether the type is a float of any kind. NumPy itself does not count bfloat16."""
    return dtype.name in EPSILON


def epsilon(dtype: np.dtype) -> float:
    """Returns the distance from 1 to the next larger value of the type."""
    return EPSILON[dtype.name]


def largest(values: Array, least: float) -> float:
    """Returns the largest finite magnitude, or `least` if larger."""
    wide = values.astype(np.float64)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=least))


def is_a_limit(expected: Array, truth: Array) -> Array:
    """Returns where Keras has the limit of its type, such as for a maximum of no values; the rebuild differs."""
    with np.errstate(invalid="ignore", over="ignore"):  # the limit of float32 is infinite in float16
        is_beyond = np.abs(truth) >= BEYOND.get(expected.dtype.name, np.inf)
    limited: Array = is_beyond & np.isfinite(truth) & np.isfinite(expected.astype(np.float64))
    return limited
