"""The longest timescale of a table that was made with another than 10,000."""

from dataclasses import replace

import numpy as np

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.identification.candidates import Candidate
from keras_pe.conventions.identification.table import Rotation
from keras_pe.timescales import Float64Array

# Positions tried for the first row: far from 0 the angles wind too often for an unknown timescale to be read off them.
_MAX_START = 2**11


def fitted_longest(candidate: Candidate, rotation: Rotation, channels: int) -> list[Candidate]:
    """Returns the candidate with the longest timescales that best explain the rotation, at most three of them.

    In every schedule a timescale is `c * L**e` with a known exponent, so the logarithm of the rates is a straight line
    in `log(L)`. The turn from row to row gives a first estimate, and the angle at the table's centre sharpens it, once
    for each first position that is tried.
    """
    convention = CONVENTIONS[candidate.timescales_of[0]]
    pairs = channels // 2
    low, high = (convention.timescales(channels, longest)[:pairs] for longest in (10.0, 100.0))
    exponents = np.log(high / low) / np.log(10.0)
    factors = low / 10.0**exponents
    turning = (rotation.rates > 0) & (exponents > 0)
    if not turning.any():
        return []
    # The rates are known equally well in radians, so their logarithms with weight rate**2.
    weights = np.where(turning, rotation.rates, 0.0) ** 2 * exponents
    logs = -np.log(np.where(turning, rotation.rates, 1.0) * factors)
    estimate = float(weights @ logs / (weights @ exponents))
    longest = _sharpened(np.full(_MAX_START, estimate), exponents, factors, rotation)
    return [
        replace(candidate, timescales=convention.timescales(channels, each), max_timescale=each)
        for each in dict.fromkeys(_plain(np.exp(value)) for value in longest)
        if each > 1.0
    ]


def _sharpened(logs: Float64Array, exponents: Float64Array, factors: Float64Array, rotation: Rotation) -> Float64Array:
    """Returns the three best `log(L)`, from as many estimates as there are first positions: Gauss-Newton for each."""
    where = np.arange(len(logs))[:, np.newaxis] + rotation.centre
    for _ in range(6):
        rates = np.exp(-logs[:, np.newaxis] * exponents) / factors
        away = where * rates - rotation.phases
        away -= 2 * np.pi * np.round(away / (2 * np.pi))
        slope = -where * rates * exponents
        cost = (away**2).sum(axis=1)
        logs = np.clip(logs - (slope * away).sum(axis=1) / np.maximum((slope**2).sum(axis=1), 1e-30), 1e-3, 50.0)
    return logs[np.argsort(cost, kind="stable")[:3]]


def _plain(longest: float) -> float:
    """Returns the number somebody wrote down, where the fitted one is within a millionth of one."""
    short = float(f"{longest:.3g}")
    return short if abs(short - longest) <= 1e-6 * longest else float(longest)
