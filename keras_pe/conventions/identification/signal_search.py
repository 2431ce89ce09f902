"""Searches the first position, the direction and the longest timescale of a signal in a table."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.identification.encoding_table import LOOSE, CheckedTable, Rounding, Rows
from keras_pe.conventions.identification.fit import Fit, closest, fit_of_rows
from keras_pe.conventions.identification.rotation import Rotation, measure
from keras_pe.conventions.identification.signals import ANGLE_ERROR, USUAL, Signal, sequence_signals
from keras_pe.signal.formula import Float64Array

# Directions with their range of first positions. Tokens ascend from 0; distances are negative or descend.
TOKENS = ((1, 0, 2**17),)
DISTANCES = ((1, -(2**17), 0), (-1, -(2**17), 2**17))
# Far from 0, the angles wind too often to determine an unknown timescale.
UNUSUAL_MAX_START = 2**11
# Largest error of measured rates, in radians at both ends of a table.
_BENT = 0.2
# Largest share of all tables that may match a convention by chance, in a rough estimate.
_RARELY = 1e-6

Ways = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, eq=False)
class Circles:
    """A signal whose columns have the radii of sines and cosines, with the rotation and the rounding of its pairs."""

    signal: Signal
    turns: Rotation
    rounding: Rounding


def sequence_fits(table: CheckedTable, ways: Ways) -> tuple[list[Fit], bool]:
    """Returns the fits of a table of consecutive positions, and whether they suffice to name a convention."""
    rows = table.closely()
    circles = list(_circles(table, rows, distances=ways is DISTANCES))
    known = [found for each in circles for found in _fits(each, rows, ways)]
    known = _on_the_whole(closest(known, rows.values.size), rows, table)
    # Two columns rotate at one rate. It is 1 in half of the conventions, and depends on the longest timescale in
    # others.
    enough = table.channels > 2
    if known:
        same = [replace(each, signal=other) for each in known for other in _equal_signals(each.signal)]
        return known + same, enough
    # Other longest timescales are only tried now, since many of them would fit a table of few rows.
    rough = [found for each in circles for found in _fits(each, rows, ways, is_usual=False)]
    fits = closest(rough, rows.values.size)
    enough = enough and all(_by_chance(each, rows) < _RARELY for each in fits)
    return _on_the_whole(_refit(fits, rows, table.spread()), rows, table), enough


def _circles(table: CheckedTable, rows: Rows, distances: bool) -> Iterator[Circles]:
    measured: dict[bytes, tuple[Rotation, Rounding | None]] = {}
    for signal in sequence_signals(table.channels, distances):
        sines, cosines = signal.pairs
        layout = sines.tobytes() + cosines.tobytes()
        if layout not in measured:
            points = signal.points(rows.values)
            measured[layout] = measure(points, rows.index), Rounding.from_radii(np.abs(points), table, rows.values)
        turns, rounding = measured[layout]
        if rounding is not None:
            yield Circles(signal, turns, rounding)


def _fits(circles: Circles, rows: Rows, ways: Ways, is_usual: bool = True) -> Iterator[Fit]:
    """Yields the fits of a signal at the nearest first positions, with the usual longest timescale or a fitted one."""
    turns, rounding, signal = circles.turns, circles.rounding, circles.signal
    for step, low, high in ways:
        if not is_usual:
            signal = _with_fitted_longest(signal, step * turns.rates)
            low, high = max(low, -UNUSUAL_MAX_START), min(high, UNUSUAL_MAX_START)
        for start in _first_positions(signal, turns, rows.index, step, (low, high), not is_usual):
            near, error = (signal, 0.0) if is_usual else _sharpen(signal, start, step, rows, rounding)
            found = fit_of_rows(rows, near, rounding, start, step, 5 * error)
            if found is not None:
                yield found


def _first_positions(
    signal: Signal, turns: Rotation, index: npt.NDArray[np.intp], step: int, within: tuple[int, int], is_fitted: bool
) -> list[int]:
    """Returns at most 32 positions of row 0 at which the angles are near, the nearest first."""
    rates = signal.rates
    gap = int(np.diff(index).min())  # the rates are only known up to whole turns per gap
    off = float(np.abs(_within_half_a_turn((turns.rates - step * rates) * gap)).max()) / gap
    if off * np.ptp(index) > _BENT:
        return []
    phases = turns.phases - step * rates * index[len(index) // 2]
    starts = np.arange(*within)
    starts = starts[np.argsort(np.abs(starts), kind="stable")]
    error = ANGLE_ERROR * np.maximum(1.0, rates) + is_fitted * (3 * off / rates.max() + 1e-9) * rates
    for pair in dict.fromkeys([0, len(rates) - 1, len(rates) // 2, len(rates) // 4]):
        away = np.abs(_within_half_a_turn(starts * rates[pair] - phases[pair]))
        starts = starts[away < LOOSE + error[pair] * (np.abs(starts) + index[-1])]
    away = _within_half_a_turn(np.multiply.outer(starts, rates) - phases)
    # Angles within 3e-8 count as equal. The sort is stable, so the first of equally near positions stays first.
    nearest: list[int] = starts[np.argsort((away**2).sum(axis=1).round(15), kind="stable")[:32]].tolist()
    return nearest


def _within_half_a_turn(radians: Float64Array) -> Float64Array:
    rest: Float64Array = radians - 2 * np.pi * np.round(radians / (2 * np.pi))
    return rest


def _on_the_whole(fits: list[Fit], rows: Rows, table: CheckedTable) -> list[Fit]:
    if len(rows.index) == table.count:
        return fits
    return [whole for each in fits if (whole := each.on_the_whole(table)) is not None]


def _with_fitted_longest(signal: Signal, rates: Float64Array) -> Signal:
    """Returns the signal with the longest timescale that is nearest to these rates."""
    exponents, factors = (each[signal.timescale_index[signal.pairs[0]]] for each in signal.powers)
    turning = (rates > 0) & (exponents > 0)
    # All rates have equal errors in radians, so their logarithms have the weight rate**2.
    weights = np.where(turning, rates, 0.0) ** 2 * exponents
    logs = -np.log(np.where(turning, rates, 1.0) * factors)
    power = float(weights @ logs) / max(float(weights @ exponents), 1e-300)
    return signal.with_longest(math.exp(min(max(power, 0.0), 50.0)))


def _sharpen(signal: Signal, start: int, step: int, rows: Rows, rounding: Rounding) -> tuple[Signal, float]:
    """Returns the signal with the longest timescale that explains these rows best, and its relative error.

    The function fits a straight line, which is 0 at position 0, to the angles. The given signal must be right within
    half a turn on all rows.
    """
    points, positions, rates = signal.points(rows.values), start + step * rows.index, signal.rates
    rest = np.angle(points * np.exp(-1j * np.multiply.outer(positions, rates)))
    size = float(positions @ positions)
    renewed = _with_fitted_longest(signal, rates + positions @ rest / size)
    slope = rates * signal.powers[0][signal.timescale_index[signal.pairs[0]]]
    noise = np.sqrt(np.mean(rounding.of(rows.values) ** 2) / np.mean(np.abs(points) ** 2))
    return renewed, float(noise) / math.sqrt(max(size * float(slope @ slope), 1e-30))


def _refit(fits: list[Fit], rows: Rows, far: Rows) -> list[Fit]:
    """Returns fits in which each signal has the longest timescale of its closest fit, refined on far rows."""
    signals: dict[tuple[object, ...], Signal] = {}
    again = []
    for each in sorted(fits, key=lambda each: each.misfit):
        signal, error = _sharpen(each.signal, each.start, each.step, far, each.rounding)
        longest = _written(signal.max_timescale, error)
        schedule = signal.timescales_of, signal.layout, each.step
        signal = signals.setdefault(schedule, signal.with_longest(longest))
        again.append(fit_of_rows(rows, signal, each.rounding, each.start, each.step, 5 * error))
    return [each for each in again if each is not None]


def _written(longest: float, error: float) -> float:
    """Returns a timescale of few digits near the fitted one, if it is unlikely to be near by chance.

    The error of the float32 formula alone moves a fitted longest timescale by up to 3e-6 of its value.
    """
    window = max(3 * error, 3e-6) * longest
    for digits in range(1, 7):
        short = float(f"{longest:.{digits}g}")
        neighbors_apart = 10.0 ** (np.floor(np.log10(longest)) + 1 - digits)
        if abs(short - longest) <= window < neighbors_apart / 20:
            return short
    return float(longest)


def _equal_signals(signal: Signal) -> Iterator[Signal]:
    """Yields signals of other schedules with equal values, each with a longest timescale of two digits.

    At 8 channels, both the paper's sequence to 10,000 and tensor2tensor's to 1,000 are 1, 10, 100 and 1,000.
    """
    for other in sequence_signals(len(signal.timescale_index)):
        exponents, factors = other.powers
        if other.timescales_of == signal.timescales_of or other.layout != signal.layout or not exponents[-1]:
            continue
        longest = float(f"{float(signal.timescales[-1] / factors[-1]) ** (1.0 / exponents[-1]):.2g}")
        if longest > 1.0 and longest != USUAL:
            renewed = other.with_longest(longest)
            if np.allclose(renewed.columns, signal.columns, 1e-9, 0.0):
                yield renewed


def _by_chance(fit: Fit, rows: Rows) -> float:
    """Returns the share of all tables of circles that some longest timescale would explain as well as this fit.

    The share is the number of first positions, times the share of the angles that pass, times the shares of the rates
    that pass. One rate is left out, since it determines the longest timescale.
    """
    angle = 4 * max(fit.rounding.relative, float(np.max(fit.rounding.absolute)) / fit.scale)
    rates = fit.signal.rates
    passing = np.sort(np.minimum(1.0, angle / (rows.index.std() * rates)))
    return float(4 * UNUSUAL_MAX_START * min(1.0, angle / np.pi) ** len(rates) * np.prod(passing[1:]))
