"""Rotations: sines and cosines of angles, exact, and those of a sum by the addition theorem, without the angle."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.signal.timescales import Float64Array

Rotation = tuple[Any, Any]  # sines and cosines, (..., timescales) each


def compose(one: Rotation, other: Rotation) -> Rotation:
    """Returns the sines and cosines of the sums of two angles."""
    (sin_1, cos_1), (sin_2, cos_2) = one, other
    return sin_1 * cos_2 + cos_1 * sin_2, cos_1 * cos_2 - sin_1 * sin_2


def exact_rotations(positions: npt.NDArray[np.int64], timescales: Float64Array) -> Float64Array:
    """Returns sines, then cosines, in float64: `(positions, 2 * timescales)`."""
    angles = positions.astype(np.float64)[:, np.newaxis] / timescales
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def split(rows: Any) -> Rotation:
    """Returns the sines and the cosines of rows that hold both."""
    count = rows.shape[-1] // 2
    return rows[..., :count], rows[..., count:]
