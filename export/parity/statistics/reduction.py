"""The largest value along the last axis, fast where that axis is short, as it is for classes."""

import numpy as np

from keras_pe.export.results import Array

_SHORT = 64  # below, NumPy's loop over one row costs more than a copy with the rows last


def last_axis_max(values: Array) -> Array:
    """Returns the largest along the last axis of `(..., n)` floats: NaN where there is one, 0 where n is 0."""
    count = values.shape[-1]
    if not 0 < count < _SHORT:
        whole: Array = values.max(axis=-1) if count else np.zeros(values.shape[:-1])
        return whole
    across: Array = np.ascontiguousarray(values.reshape(-1, count).T).max(axis=0)
    return across.reshape(values.shape[:-1])
