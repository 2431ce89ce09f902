"""The longest timescale of a table that was made with another than 10,000."""

from dataclasses import replace

import numpy as np

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.identification.candidates import USUAL, Candidate, candidates
from keras_pe.conventions.identification.fit import Fit, angle_error
from keras_pe.conventions.identification.rotation import Rotation
from keras_pe.conventions.identification.rows import Rows
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import assemble

# Positions tried for the first row: far from 0 the angles wind too often for an unknown timescale to be read off them.
UNUSUAL_MAX_START = 2**11
# Pairs of columns whose angles are looked at, evenly spread: one number is sought, and so many tell it.
_PAIRS = 64


def fitted_longest(candidate: Candidate, rotation: Rotation) -> list[Candidate]:
    """Returns the candidate with the longest timescales that best explain the rotation, at most three of them.

    In every schedule a timescale is `c * L**e` with a known exponent, so the logarithm of the rates is a straight line
    in `log(L)`. The turn from row to row gives a first estimate, and the angle at the table's center sharpens it, once
    for each first position that is tried.
    """
    exponents, factors = (each[: len(rotation.rates)] for each in _schedule(candidate))
    turning = (rotation.rates > 0) & (exponents > 0)
    if not turning.any():
        return []
    # The rates are known equally well in radians, so their logarithms with weight rate**2.
    weights = np.where(turning, rotation.rates, 0.0) ** 2 * exponents
    logs = -np.log(np.where(turning, rotation.rates, 1.0) * factors)
    estimate = float(weights @ logs / (weights @ exponents))
    longest = _at_each_start(np.full(UNUSUAL_MAX_START, estimate), exponents, factors, rotation)
    return [with_longest(candidate, each) for each in dict.fromkeys(np.exp(longest)) if each > 1.0]


def by_chance(fit: Fit) -> float:
    """Returns in what part of all tables of circles some longest timescale would explain them as this fit does.

    It is about the number of first positions that are tried, times the part of all angles that would pass, times the
    part of all rates; but one rate is no evidence, because the longest timescale is read off it.
    """
    angle = angle_error(fit.off / fit.scale)
    rates = 1.0 / fit.candidate.timescales[: len(fit.rotation.rates)]
    told = np.sort(np.minimum(1.0, angle / (fit.rotation.spread * rates)))
    return float(UNUSUAL_MAX_START * min(1.0, angle / np.pi) ** len(rates) * np.prod(told[1:]))


def sharpened(fit: Fit, rows: Rows) -> tuple[float, float]:
    """Returns the longest timescale that explains these rows best, and by what part of itself it may be off.

    Gauss-Newton in `log(L)`, from an estimate that is right to less than a radian on these rows; far ones tell it best.
    """
    exponents, _ = _schedule(fit.candidate)
    longest, error = fit.candidate.max_timescale, 0.0
    positions = (rows.index + fit.start)[:, np.newaxis]
    channels, layout = rows.values.shape[1], fit.candidate.layout
    for _ in range(3):
        angles = positions / with_longest(fit.candidate, longest).timescales
        left = rows.values - fit.scale * assemble(np.sin(angles), np.cos(angles), channels, layout)
        turn = -fit.scale * angles * exponents
        slope = assemble(turn * np.cos(angles), -turn * np.sin(angles), channels, layout)
        told = max(float((slope * slope).sum()), 1e-30)
        step, error = float((slope * left).sum()) / told, float(np.sqrt(np.mean(left**2) / told))
        longest *= float(np.exp(np.clip(step, -1e-2, 1e-2)))
    return longest, error


def written(longest: float, error: float) -> float:
    """Returns the number of few digits that somebody wrote down, where the fitted one may be it and hardly by chance.

    The float32 formula itself makes a longest timescale of another one, off by up to 3e-6 of it.
    """
    window = max(3 * error, 3e-6) * longest
    for digits in range(1, 7):
        short = float(f"{longest:.{digits}g}")
        neighbors_apart = 10.0 ** (np.floor(np.log10(longest)) + 1 - digits)
        if abs(short - longest) <= window < neighbors_apart / 20:
            return short
    return float(longest)


def of_the_same_numbers(candidate: Candidate) -> list[Candidate]:
    """Returns the other schedules that make this candidate's very numbers, with a longest timescale of two digits.

    At 8 channels 10, 100 and 1,000 follow 1 in the paper's sequence to 10,000, and in tensor2tensor's to 1,000.
    """
    found = []
    for other in candidates(len(candidate.order)):
        is_comparable = (
            np.array_equal(other.order, candidate.order) and other.timescales.size == candidate.timescales.size
        )
        if other.timescales_of == candidate.timescales_of or not is_comparable:  # a sine may stand without its cosine
            continue
        exponents, factors = _schedule(other)
        longest = float(candidate.timescales[-1] / factors[-1]) ** (1.0 / exponents[-1]) if exponents[-1] else 0.0
        short = float(f"{longest:.2g}")
        if short > 1.0 and short != USUAL:
            renewed = with_longest(other, short)
            if np.allclose(renewed.timescales, candidate.timescales, rtol=1e-9, atol=0.0):
                found.append(renewed)
    return found


def with_longest(candidate: Candidate, longest: float) -> Candidate:
    """Returns the candidate with another longest timescale than 10,000."""
    timescales = CONVENTIONS[candidate.timescales_of[0]].timescales(len(candidate.order), longest)
    return replace(candidate, timescales=timescales, max_timescale=longest)


def _schedule(candidate: Candidate) -> tuple[Float64Array, Float64Array]:
    """Returns the exponents `e` and factors `c` of the timescales."""
    low, high = (with_longest(candidate, longest).timescales for longest in (10.0, 100.0))
    exponents = np.log(high / low) / np.log(10.0)
    return exponents, low / 10.0**exponents


def _at_each_start(
    logs: Float64Array, exponents: Float64Array, factors: Float64Array, rotation: Rotation
) -> Float64Array:
    """Returns the three best `log(L)`, from as many estimates as there are first positions: Gauss-Newton for each."""
    some = np.unique(np.linspace(0, len(exponents) - 1, _PAIRS).round().astype(int))
    exponents, factors = exponents[some], factors[some]
    where = np.arange(len(logs))[:, np.newaxis] + rotation.center
    for _ in range(6):
        rates = np.exp(-logs[:, np.newaxis] * exponents) / factors
        away = where * rates - rotation.phases[some]
        away -= 2 * np.pi * np.round(away / (2 * np.pi))
        # The angles of all rows are off by the one at the center and, to both sides of it, by the turn from row to row.
        turned = (rates - rotation.rates[some]) * rotation.spread
        cost = (away**2 + turned**2).sum(axis=1)
        slope, turn = -where * rates * exponents, -rotation.spread * rates * exponents
        step = (slope * away + turn * turned).sum(axis=1) / np.maximum((slope**2 + turn**2).sum(axis=1), 1e-30)
        logs = np.clip(logs - step, 1e-3, 50.0)
    return logs[np.argsort(cost.round(15), kind="stable")[:3]]
