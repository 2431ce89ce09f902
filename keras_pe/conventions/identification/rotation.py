"""Measures the rotation of points on circles from row to row, by a straight line through their angles."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from keras_pe.signal.formula import Float64Array


class Rotation(NamedTuple):
    """The uniform rotation that is nearest to some points.

    Attributes:
        radius: Radius of the circles.
        rates: `(pairs,)`, radians per row, in (-pi, pi] if some rows are next to each other.
        phases: `(pairs,)`, radians at the middle row.
        off: Largest distance of a point from the rotation, divided by the radius.
    """

    radius: float
    rates: Float64Array
    phases: Float64Array
    off: float


def measure(points: npt.NDArray[np.complex128], index: npt.NDArray[np.intp]) -> Rotation:
    """Returns the rotation of points `(rows, pairs)`, cosine + i sine, at ascending rows `index`."""
    gaps = np.diff(index)
    near = np.flatnonzero(gaps == gaps.min())
    offsets = index - index.mean()
    # A first estimate from neighboring rows, then a straight line through the remaining angles.
    rates = np.angle(np.sum(points[near + 1] * points[near].conj(), axis=0)) / gaps.min()
    still = points * np.exp(-1j * np.multiply.outer(offsets, rates))
    phases = np.angle(still.sum(axis=0))
    rest = np.angle(still * np.exp(-1j * phases))
    rates, phases = rates + offsets @ rest / (offsets @ offsets), phases + rest.mean(axis=0)
    radius = float(np.sqrt(np.mean(np.abs(points) ** 2)))
    off = np.abs(points - radius * np.exp(1j * (np.multiply.outer(offsets, rates) + phases))).max()
    phases = phases + rates * offsets[len(index) // 2]
    return Rotation(radius, rates, phases, float(off) / (radius or 1.0))
