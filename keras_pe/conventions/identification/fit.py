"""Whether a signal explains a table: closely on some rows, then on all of them."""

from dataclasses import dataclass

import numpy as np

from keras_pe.conventions.identification.candidates import Candidate
from keras_pe.conventions.identification.first_position import FORMULA_ERROR, MAX_START, RATE_ERROR, first_positions
from keras_pe.conventions.identification.rotation import LARGEST_ROUNDING, Rotation
from keras_pe.conventions.identification.rows import CheckedTable, Rows, block_rows
from keras_pe.signal.formula import Float64Array, timing_signal
from keras_pe.signal.layouts import assemble

# Root mean square difference that is taken for chance, in units of what a value may be off by. Three, because a table
# of eight values, the least there is, knows its own noise no better than that.
_CHANCE = 3.0


@dataclass(frozen=True, eq=False)
class Fit:
    """A signal that explains the rows of a table that were looked at closely.

    Attributes:
        candidate: The signal.
        rotation: What was measured of the rows, in the candidate's layout.
        start: Position of the first row.
        scale: What the signal is multiplied by.
        misfit: Root mean square difference, in units of what each value may be off by.
        max_abs_diff: Largest difference.
        off: What a value of the table may be off by, whatever made it.
    """

    candidate: Candidate
    rotation: Rotation
    start: int
    scale: float
    misfit: float
    max_abs_diff: float
    off: float


def fits(
    rows: Rows, rounding: Float64Array, candidate: Candidate, rotation: Rotation, below: int = MAX_START
) -> list[Fit]:
    """Returns the fits of a candidate, one for each first position at which it explains the rows.

    Args:
        rows: Those that are looked at closely.
        rounding: What each of their values may be off by, because of the type it was stored in.
        candidate: The signal to try.
        rotation: Of the rows, in the candidate's layout.
        below: First positions from here on are not tried.
    """
    off = float(_precision(rounding, rotation).max()) / rotation.scale
    starts = first_positions(candidate, rotation, int(rows.index[-1]) + 1, angle_error(off), below)
    tried = (fit(rows, rounding, candidate, rotation, int(start)) for start in starts)
    return [each for each in tried if each is not None]


def fit(rows: Rows, rounding: Float64Array, candidate: Candidate, rotation: Rotation, start: int) -> Fit | None:
    """Returns how a candidate explains the rows from one first position on, or None if it does not."""
    channels, scale, precision = rows.values.shape[1], rotation.scale, _precision(rounding, rotation)
    positions = rows.index + start
    signal = timing_signal(positions, channels, layout=candidate.layout, timescales=candidate.timescales)
    factor = float((rows.values * signal).sum() / (signal * signal).sum())
    left = np.abs(rows.values - factor * signal)
    formula = _formula_error(candidate) * positions[:, np.newaxis] * scale
    if _misfit(left, precision + formula) > _CHANCE or (left > LARGEST_ROUNDING * scale + formula).any():
        return None
    # Compared without the formula's error, or else the farthest position would be the most welcome.
    misfit = _misfit(left, precision)
    return Fit(candidate, rotation, start, factor, misfit, float(left.max()), float(precision.max()))


def _precision(rounding: Float64Array, rotation: Rotation) -> Float64Array:
    # A table that was rounded before it was scaled is noisier than its own type tells: what no rotation explains.
    noise = rotation.noise if rotation.noise * rotation.scale > 2 * np.sqrt(np.mean(rounding**2)) else 0.0
    precision: Float64Array = rounding + (noise + 1e-7) * rotation.scale
    return precision


def angle_error(off: float) -> float:
    """Returns what an angle may be off by, in radians, where a sine and its cosine may each be off by so much."""
    return _CHANCE * float(np.sqrt(2)) * off


def largest_difference(fit: Fit, table: CheckedTable) -> float | None:
    """Returns the largest difference that a fit leaves in the whole table, or None if it does not explain all of it.

    A column may be off by chance as on the rows that were looked at closely, a value by what a table may be off by.
    """
    error, largest = _formula_error(fit.candidate), 0.0
    signal = _Turning(fit, table.channels)
    for first, values, counts in table.blocks():
        left = np.abs(signal.rows(first, len(values)) - values)
        left[~counts] = 0.0
        worst = left.max(axis=0)
        typical = np.sqrt(np.einsum("ij,ij->j", left, left) / len(left))
        formula = error * (fit.start + first + len(values)) * fit.scale
        if (worst > LARGEST_ROUNDING * fit.scale + formula).any() or (typical > _CHANCE * (fit.off + formula)).any():
            return None
        largest = max(largest, float(worst.max()))
    return largest


class _Turning:
    """A fit's signal, block by block: each is the first one turned on, so that few sines are ever computed."""

    def __init__(self, fit: Fit, channels: int) -> None:
        self._scales, self._order = fit.candidate.timescales, fit.candidate.order
        angles = (fit.start + np.arange(block_rows(channels)))[:, np.newaxis] / self._scales
        sin, cos = fit.scale * np.sin(angles), fit.scale * np.cos(angles)
        self._signal = assemble(sin, cos, channels, fit.candidate.layout)
        self._slope = assemble(cos, -sin, channels, fit.candidate.layout)

    def rows(self, first: int, count: int) -> Float64Array:
        """Returns `count` rows from `first` on."""
        turn = first / self._scales
        cos, sin = (np.concatenate([each, each, [0.0]])[self._order] for each in (np.cos(turn), np.sin(turn)))
        turned: Float64Array = self._signal[:count] * cos + self._slope[:count] * sin
        return turned


def _misfit(left: Float64Array, precision: Float64Array) -> float:
    return float(np.sqrt(np.mean((left / precision) ** 2)))


def _formula_error(candidate: Candidate) -> Float64Array:
    """Returns by what the float32 formula may be off at position 1, for each column: it grows with the position."""
    rates = 1.0 / candidate.timescales
    by_timescale = np.minimum(RATE_ERROR * rates, FORMULA_ERROR * np.maximum(1.0, rates))
    return np.concatenate([by_timescale, by_timescale, [0.0]])[candidate.order]
