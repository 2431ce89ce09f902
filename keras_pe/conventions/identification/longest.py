"""The longest timescale of a table that was made with another than 10,000: a straight line through its rates."""

import numpy as np

from keras_pe.conventions.identification.rounding import Rounding
from keras_pe.conventions.identification.rows import Rows
from keras_pe.conventions.identification.signals import USUAL, Signal, sequence_signals
from keras_pe.signal.formula import Float64Array

# Far from 0 the angles wind too often for an unknown timescale to be read off them.
UNUSUAL_MAX_START = 2**11
# Rows that tell a longest timescale, evenly spread: one number is sought.
_SOME_ROWS = 48


def _schedule(signal: Signal) -> tuple[Float64Array, Float64Array]:
    """Returns the exponents `e` and factors `c` of timescales `c * L**e`."""
    low, high = (signal.like.timescales(len(signal.held), longest) for longest in (10.0, 100.0))
    exponents = np.log10(high / low)
    return exponents, low / 10.0**exponents


def fitted_longest(signal: Signal, rates: Float64Array, length: int) -> tuple[float, float] | None:
    """Returns the longest timescale with which a schedule has these rates, and the error of its rates.

    Args:
        signal: The schedule and layout.
        rates: `(pairs,)`, radians per position, measured on so many rows.
        length: Number of rows.

    Returns:
        None if no longest timescale gives these rates.
    """
    exponents, factors = (each[signal.held[signal.pairs[0]]] for each in _schedule(signal))
    turning = (rates > 0) & (exponents > 0)
    if not turning.any():
        return None
    # The rates are known equally well in radians, so their logarithms with weight rate**2.
    weights = np.where(turning, rates, 0.0) ** 2 * exponents
    logs = -np.log(np.where(turning, rates, 1.0) * factors)
    longest = float(np.exp(np.clip(weights @ logs / (weights @ exponents), 1e-3, 50.0)))
    off = np.abs(longest**-exponents / factors - rates).max()
    # The angles at both ends are off by as much; more than that is another schedule.
    return (longest, float(3 * off / np.abs(rates).max()) + 1e-9) if off * length < 0.1 else None


def sharpened(signal: Signal, start: int, step: int, rows: Rows, rounding: Rounding) -> tuple[float, float]:
    """Returns the longest timescale that explains these rows best, and its relative error.

    Gauss-Newton in `log(L)` on some of the rows, from an estimate that is right to less than a radian on them.
    """
    some = np.unique(np.linspace(0, len(rows.index) - 1, _SOME_ROWS).round().astype(int))
    values, positions = rows.values[some], start + step * rows.index[some]
    longest, size = signal.max_timescale, 1.0
    exponents = np.append(_schedule(signal)[0], 0.0)[signal.held]
    for _ in range(3):
        trial = signal.with_longest(longest)
        expected, angles = trial.at(positions), positions[:, np.newaxis] / trial.columns
        slope = np.where(signal.is_cosine, np.sin(angles), -np.cos(angles)) * angles * exponents
        scale = float((values * expected).sum() / (expected * expected).sum())
        left, slope = values - scale * expected, scale * slope
        size = max(float((slope * slope).sum()), 1e-30)
        longest *= float(np.exp(np.clip(float((slope * left).sum()) / size, -1e-2, 1e-2)))
    return max(longest, 1.0), float(np.sqrt(np.mean(rounding.of(values) ** 2) / size))


def written(longest: float, error: float) -> float:
    """Returns the number of few digits that somebody wrote down, if the fitted one may be it and hardly by chance.

    The float32 formula itself makes a longest timescale of another one, off by up to 3e-6 of it.
    """
    window = max(3 * error, 3e-6) * longest
    for digits in range(1, 7):
        short = float(f"{longest:.{digits}g}")
        neighbors_apart = 10.0 ** (np.floor(np.log10(longest)) + 1 - digits)
        if abs(short - longest) <= window < neighbors_apart / 20:
            return short
    return float(longest)


def of_the_same_numbers(signal: Signal) -> list[Signal]:
    """Returns the other schedules that make a signal's very numbers, with a longest timescale of two digits.

    At 8 channels 10, 100 and 1,000 follow 1 in the paper's sequence to 10,000, and in tensor2tensor's to 1,000.
    """
    found = []
    for other in sequence_signals(len(signal.held)):
        exponents, factors = _schedule(other)
        if other.timescales_of == signal.timescales_of or other.layout != signal.layout or not exponents[-1]:
            continue
        longest = float(f"{float(signal.timescales[-1] / factors[-1]) ** (1.0 / exponents[-1]):.2g}")
        if longest > 1.0 and longest != USUAL:
            renewed = other.with_longest(longest)
            if np.allclose(renewed.columns, signal.columns, 1e-9, 0.0):
                found.append(renewed)
    return found
