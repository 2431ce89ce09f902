"""Whether two arrays are the same but for what rounding leaves."""

import numpy as np

from keras_pe.export.results import Array

ROUNDING = 2.0**-21
"""Of the largest value: what is left when something else is explained."""


def is_same(one: Array, other: Array) -> bool:
    """Whether two arrays of one shape are the same but for rounding."""
    return bool(np.abs(one - other).max(initial=0.0) <= ROUNDING * np.abs(one).max(initial=0.0))
