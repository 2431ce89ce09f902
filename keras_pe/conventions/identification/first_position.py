"""The positions that the first row of a table may have, told by its angles."""

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.identification.candidates import Candidate
from keras_pe.conventions.identification.rotation import LARGEST_ROUNDING, Rotation
from keras_pe.signal.formula import Float64Array

# First positions that are looked through.
MAX_START = 2**17
# Error of the float32 formula, `sin(float32(position) * inverse_timescale)`, per radian: 1.2e-7 was measured.
FORMULA_ERROR = 2e-7
# A rate, from a power or an exponential in float32, is off by up to a millionth of itself.
RATE_ERROR = 1e-6


def first_positions(
    candidate: Candidate, rotation: Rotation, length: int, precision: float, below: int = MAX_START
) -> npt.NDArray[np.intp]:
    """Returns the positions at which a candidate's angles are near the measured ones, at most the 32 nearest.

    Args:
        candidate: The signal to compare with.
        rotation: Of the table.
        length: Number of rows that it was measured on, those between them counted.
        precision: What an angle may be off by, in radians, but for the float32 formula.
        below: No position from here on is looked at.
    """
    rates = 1.0 / candidate.timescales[: len(rotation.rates)]
    # Whole positions tell a rate only up to whole turns per row.
    apart = rates - rotation.rates
    apart -= _whole_turns(apart)
    # Far more than a table may be off by, and yet it leaves few of the candidates and of the positions.
    near = 4 * LARGEST_ROUNDING + FORMULA_ERROR * length
    if np.abs(apart).max() * length / 2 > near:
        return np.arange(0)
    # The formula's angles are off by half a unit in the last place, and more of that only comes with the position.
    turned = np.abs(apart) * rotation.spread - precision - RATE_ERROR * rates * rotation.spread
    first = max(0, int(np.max(turned / (2.0**-24 * rates))))
    phases = rotation.phases - rotation.center * (rotation.rates + apart)
    starts = np.arange(min(first, below), below)
    pairs = len(rates)
    for pair in dict.fromkeys([0, pairs - 1, pairs // 2, pairs // 4]):
        away = starts * rates[pair] - phases[pair]
        starts = starts[np.abs(away - _whole_turns(away)) < near + FORMULA_ERROR * max(1.0, rates[pair]) * starts]
    away = np.multiply.outer(starts, rates) - phases
    away -= _whole_turns(away)
    # Angles of 3e-8 tell nothing: of positions that are equally near, the first comes first.
    return starts[np.argsort((away**2).sum(axis=1).round(15), kind="stable")[:32]]


def _whole_turns(radians: Float64Array) -> Float64Array:
    turn = 2 * np.pi
    whole: Float64Array = turn * np.round(radians / turn)
    return whole
