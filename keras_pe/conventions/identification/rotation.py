"""What rows say about themselves before they are compared with any convention: radius, turn per row, noise."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.identification.rows import Rows
from keras_pe.signal.formula import Float64Array

# Half a unit of bfloat16 just below 1 is 2.0e-3: the coarsest storage a table is recognized in.
LARGEST_ROUNDING = 5e-3


@dataclass(frozen=True)
class Rotation:
    """Columns read as points on circles, one circle for each timescale, and how far each turns from row to row.

    Attributes:
        scale: Radius of the circles: what the table was multiplied by.
        rates: `(pairs,)`, radians per row, in (-pi, pi].
        phases: `(pairs,)`, radians, at the row `center`.
        center: Mean index of the rows.
        spread: Standard deviation of their index.
        noise: Root mean square of what even the best rotation leaves, relative to `scale`.
    """

    scale: float
    rates: Float64Array
    phases: Float64Array
    center: float
    spread: float
    noise: float


def measure(rows: Rows, order: npt.NDArray[np.intp], count: int) -> Rotation | None:
    """Returns the rotation of the columns, or None where they do not rotate.

    Args:
        rows: At least two of them next to each other.
        order: What each column holds, as `column_order` says.
        count: Number of timescales.
    """
    pairs = rows.values.shape[1] // 2
    column = np.argsort(order)
    points = rows.values[:, column[count : count + pairs]] + 1j * rows.values[:, column[:pairs]]
    radii = np.abs(points)
    scale = float(np.sqrt(np.mean(radii**2)))
    if np.abs(radii - scale).max() > LARGEST_ROUNDING * scale:
        return None
    center = rows.index.mean()
    offsets = rows.index - center
    # A first estimate from neighbors, then a straight line through what is left of the angles.
    neighbors = np.flatnonzero(np.diff(rows.index) == 1)
    rates = np.angle(np.sum(points[neighbors + 1] * points[neighbors].conj(), axis=0))
    still = points * np.exp(-1j * np.outer(offsets, rates))
    phases = np.angle(still.sum(axis=0))
    rest = np.angle(still * np.exp(-1j * phases))
    rates = rates + offsets @ rest / (offsets @ offsets)
    phases = phases + rest.mean(axis=0)
    left = points - scale * np.exp(1j * (np.outer(offsets, rates) + phases))
    if np.abs(left).max() > LARGEST_ROUNDING * scale:
        return None
    freedom = 2 * left.size - 2 * pairs - 1
    noise = float(np.sqrt(np.sum(np.abs(left) ** 2) / freedom)) / scale
    return Rotation(scale, rates, phases, float(center), float(offsets.std()), noise)


def storage_rounding(rows: Float64Array) -> Float64Array:
    """Returns half a unit in the last place of each value, in the coarsest type that holds all of them exactly."""
    with np.errstate(over="ignore"):
        half, single = rows.astype(np.float16), rows.astype(np.float32)
    in_single = np.array_equal(single, rows)
    # bfloat16 is float32 without its lower 16 bits. It comes first, because float16 holds most of its numbers too.
    if in_single and not (single.view(np.uint32) & 0xFFFF).any():
        return np.spacing(np.abs(single)).astype(np.float64) * 2.0**15
    if np.array_equal(half, rows):
        return np.spacing(np.abs(half)).astype(np.float64) / 2
    return np.spacing(np.abs(single if in_single else rows)).astype(np.float64) / 2
