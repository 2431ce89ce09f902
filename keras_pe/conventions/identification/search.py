"""Searches the first position, the direction and the longest timescale at which a signal explains a table."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.identification.fit import Fit, closest, fit_of_rows, on_the_whole
from keras_pe.conventions.identification.longest import (
    UNUSUAL_MAX_START,
    fitted_longest,
    of_the_same_numbers,
    sharpened,
    written,
)
from keras_pe.conventions.identification.rotation import measure
from keras_pe.conventions.identification.rounding import Rounding, rounding_of
from keras_pe.conventions.identification.rows import CheckedTable, Rows
from keras_pe.conventions.identification.signals import ANGLE_ERROR, Signal, sequence_signals
from keras_pe.signal.formula import Float64Array

# First positions that are searched.
MAX_START = 2**17
# Directions, each with the first positions from and to: tokens; then distances, which are negative or descend.
TOKENS = ((1, 0, MAX_START),)
DISTANCES = ((1, -MAX_START, 0), (-1, -MAX_START, MAX_START))
# Largest difference of radii, relative to them: that of int8 steps is 6e-3. The fit itself is strict.
_LOOSE = 2e-2
# Rows on which another longest timescale is tried before it is tried on all.
_FEW = 64
# Of how many tables one may be named by chance, in a rough estimate.
_RARELY = 1e-6

Ways = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, eq=False)
class Circles:
    """A signal whose columns have the radii of sines and cosines.

    Attributes:
        signal: The signal.
        points: `(rows, pairs)`, cosine + i sine, of radius 1.
        rates: `(pairs,)`, radians per position.
        rounding: What explains the differences of the radii.
    """

    signal: Signal
    points: npt.NDArray[np.complex128]
    rates: Float64Array
    rounding: Rounding


def sequence_fits(table: CheckedTable, ways: Ways) -> tuple[list[Fit], bool]:
    """Returns what explains a table of consecutive positions, and whether that is enough to name a convention."""
    rows = table.closely()
    circles = list(_circles(table, rows, distances=ways is DISTANCES))
    known = [each for circle in circles for each in _fits(circle, rows, ways)]
    known = _on_all(closest(known, rows.values.size), rows, table)
    # Two columns turn at one rate: 1 in half of the conventions, whatever the longest timescale makes it in others.
    enough = table.channels > 2
    if known:
        same = [replace(each, signal=other) for each in known for other in of_the_same_numbers(each.signal)]
        return known + same, enough
    # Only then another longest timescale, or else a table of few rows would have many.
    layouts = {id(each.points): each.points for each in circles}
    rates = {layout: measure(points, rows.index).rates for layout, points in layouts.items()}
    rough = [each for circle in circles for each in _with_any_longest(circle, rates[id(circle.points)], rows, ways)]
    least = min((each.misfit for each in rough), default=0.0)
    rough = [each for each in rough if each.misfit <= 3 * max(least, 1.0)]
    fits = closest(_refitted(rough, rows, rows, rounded=False), rows.values.size)
    enough = enough and all(_by_chance(each, rows) < _RARELY for each in fits)
    far = rows if table.is_all(rows) else table.spread()
    return _on_all(_refitted(fits, rows, far, rounded=True), rows, table), enough


def _circles(table: CheckedTable, rows: Rows, distances: bool) -> Iterator[Circles]:
    measured: dict[bytes, tuple[Any, Rounding | None]] = {}
    for signal in sequence_signals(table.channels, distances):
        sines, cosines = signal.pairs
        layout = sines.tobytes() + cosines.tobytes()
        if layout not in measured:
            points = rows.values[:, cosines] + 1j * rows.values[:, sines]
            radii = np.abs(points)
            scale = float(np.sqrt(np.mean(radii**2)))
            off = float(np.abs(radii - scale).max()) / scale if scale else np.inf
            rounding = rounding_of(table, rows.values, off) if off < _LOOSE else None
            measured[layout] = points / (scale or 1.0), rounding
        points, known = measured[layout]
        if known is not None:
            yield Circles(signal, points, 1.0 / signal.columns[sines], known)


def _fits(circles: Circles, rows: Rows, ways: Ways) -> Iterator[Fit]:
    """Returns the fits of a signal at the nearest first positions."""
    for step, low, high in ways:
        for start in first_positions(circles, rows.index, step, low, high):
            found = fit_of_rows(rows, circles.rounding, circles.signal, int(start), step)
            if found is not None:
                yield found


def first_positions(
    circles: Circles, index: npt.NDArray[np.intp], step: int, low: int, high: int, resolved: float = 0.0
) -> npt.NDArray[np.intp]:
    """Returns the positions of row 0 at which the angles are near, the nearest first, at most 32.

    `resolved` is the error of the rates, relative to them.
    """
    rates = circles.rates
    for some in (slice(16), slice(None)):
        # Turned back by its own rates, a signal stands still at the angles of row 0.
        still = circles.points[some] * np.exp(-1j * step * np.multiply.outer(index[some], rates))
        phases = still.mean(axis=0)
        if np.abs(phases).min(initial=1.0) < 0.99:
            return np.zeros(0, int)
    phases = np.angle(phases)
    starts = np.arange(low, high)
    starts = starts[np.argsort(np.abs(starts), kind="stable")]
    error = ANGLE_ERROR * np.maximum(1.0, rates) + resolved * rates
    for pair in dict.fromkeys([0, len(rates) - 1, len(rates) // 2, len(rates) // 4]):
        away = np.abs(_within_half_a_turn(starts * rates[pair] - phases[pair]))
        starts = starts[away < _LOOSE + error[pair] * (np.abs(starts) + index[-1])]
    away = _within_half_a_turn(np.multiply.outer(starts, rates) - phases)
    # Angles of 3e-8 are equal: of positions that are equally near, the first comes first.
    return starts[np.argsort((away**2).sum(axis=1).round(15), kind="stable")[:32]]


def _within_half_a_turn(radians: Float64Array) -> Float64Array:
    rest: Float64Array = radians - 2 * np.pi * np.round(radians / (2 * np.pi))
    return rest


def _on_all(fits: list[Fit], rows: Rows, table: CheckedTable) -> list[Fit]:
    if table.is_all(rows):
        return fits
    return [whole for each in fits if (whole := on_the_whole(each, table)) is not None]


def _with_any_longest(circles: Circles, rates: Float64Array, rows: Rows, ways: Ways) -> Iterator[Fit]:
    for step, low, high in ways:
        told = fitted_longest(circles.signal, step * rates, int(np.ptp(rows.index)))
        if told is not None:
            renewed = circles.signal.with_longest(told[0])
            again = replace(circles, signal=renewed, rates=1.0 / renewed.columns[renewed.pairs[0]])
            few = Rows(rows.index[:_FEW], rows.values[:_FEW])
            near = (step, max(low, -UNUSUAL_MAX_START), min(high, UNUSUAL_MAX_START))
            for start in first_positions(again, rows.index, *near, told[1]):
                found: Fit | None = None
                for some in (few, rows):
                    longest, error = sharpened(renewed, int(start), step, some, circles.rounding)
                    other = renewed.with_longest(longest)
                    found = fit_of_rows(some, circles.rounding, other, int(start), step, 5 * error)
                    if found is None:
                        break
                if found is not None:
                    yield found


def _refitted(fits: list[Fit], rows: Rows, far: Rows, rounded: bool) -> list[Fit]:
    """Returns the fits with the longest timescale that each signal has in its closest fit, sharpened on far rows."""
    signals: dict[tuple[object, ...], Signal] = {}
    again = []
    for each in sorted(fits, key=lambda each: each.misfit):
        longest, error = sharpened(each.signal, each.start, each.step, far, each.rounding)
        longest = written(longest, error) if rounded else float(f"{longest:.12g}")
        schedule = each.signal.timescales_of, each.signal.layout, each.step
        signal = signals.setdefault(schedule, each.signal.with_longest(longest))
        found = fit_of_rows(rows, each.rounding, signal, each.start, each.step, 5 * error)
        if found is not None:
            again.append(found)
    return again


def _by_chance(fit: Fit, rows: Rows) -> float:
    """Returns in what part of all tables of circles some longest timescale would explain them as this fit does.

    It is the number of first positions, times the part of all angles that pass, times the part of all rates that pass;
    one rate is no evidence, since the longest timescale is read off it.
    """
    angle = 4 * max(fit.rounding.relative, float(np.max(fit.rounding.absolute)) / fit.scale)
    rates = 1.0 / fit.signal.columns[fit.signal.pairs[0]]
    passing = np.sort(np.minimum(1.0, angle / (rows.index.std() * rates)))
    return float(4 * UNUSUAL_MAX_START * min(1.0, angle / np.pi) ** len(rates) * np.prod(passing[1:]))
