"""Tells which convention made a table of encodings."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from keras_pe.conventions.identification.candidates import USUAL, Candidate, candidates
from keras_pe.conventions.identification.fit import Fit, fit, fits, largest_difference
from keras_pe.conventions.identification.image_tables import image_matches
from keras_pe.conventions.identification.match import Grid, Match
from keras_pe.conventions.identification.max_timescale import (
    UNUSUAL_MAX_START,
    by_chance,
    fitted_longest,
    of_the_same_numbers,
    sharpened,
    with_longest,
    written,
)
from keras_pe.conventions.identification.rotation import Rotation, measure, storage_rounding
from keras_pe.conventions.identification.rows import CheckedTable, Rows
from keras_pe.signal.formula import Float64Array

# Of how many tables one may be named by chance; the estimate is a rough one.
_RARELY = 1e-6


def identify(table: npt.ArrayLike) -> tuple[Match, ...]:
    """Returns what made a table of encodings: one match, several that it cannot tell apart, or none.

    The rows must be consecutive positions, from any first one in 0 to 2**17 - 1; they may be cut, scaled by a positive
    factor, stored in float32, float16 or bfloat16, and some may be zeroed, as fairseq's padding row is. Tables of the
    float32 formula are recognized unless its rounding scatters the first angles by 5e-3, at some 40,000 radians.

    The convention is read off the first rows, as many as tell something; the others are then compared with it.

    A table may also be that of an image, row after row or column after column, whole or, where its places are counted,
    cut after some of them, and have rows of zeros for class tokens before it (`Match.grid`). Images are told with the
    longest timescale that their convention has by default.

    Args:
        table: `(length, channels)`, or `(1, length, channels)`, with at least 4 rows and 2 channels.

    Returns:
        The matches, the closest first. Empty if no convention makes this table, with any longest timescale. Where so
        little tells no convention, as a single sine and cosine do not (the month of a year), one match that names none.

    Raises:
        ValueError: If the table is of another shape, or has fewer than 4 rows that are not zero.
        TypeError: If it holds no real numbers.

    >>> from keras_pe import timing_signal
    >>> [match] = identify(timing_signal(range(3, 20), 16, layout="interleaved", endpoint=False))
    >>> match.conventions
    ('paper', 'keras-hub', 'positional-encodings', 'd2l')
    >>> match.start_index
    3
    """
    checked = CheckedTable(table)
    matches = _of_sequence(checked)
    if matches:
        return matches
    class_tokens = checked.class_tokens
    if class_tokens:
        after = _of_sequence(checked.without_class_tokens())
        matches = tuple(replace(each, grid=Grid((len(checked) - class_tokens,), class_tokens)) for each in after)
    return matches or image_matches(checked)


def _of_sequence(checked: CheckedTable) -> tuple[Match, ...]:
    """Returns what made a table of consecutive positions."""
    rows = checked.closely()
    rounding = storage_rounding(rows.values)
    seen = _rotating(rows)
    # A single circle turns at one rate: 1 in half of the conventions, what the longest timescale makes it in others.
    enough = checked.channels > 2
    told = _closest([found for each in seen for found in fits(rows, rounding, *each)], rows)
    if not checked.is_all(rows):
        told = _on_the_whole(told, checked)
    told += [replace(each, candidate=other) for each in told for other in of_the_same_numbers(each.candidate)]
    if not told:
        # Only then with another longest timescale, or else a table of few rows would have many.
        told = _with_any_longest(seen, rows, rounding)
        enough = enough and all(by_chance(each) < _RARELY for each in told)
        whole = checked.is_all(rows)
        known = rows if whole else checked.spread()
        told = _refitted(told, rows, rounding, lambda each: written(*sharpened(each, known)))
        if not whole:
            told = _on_the_whole(told, checked)
    matches = _matches(told)
    return matches if enough else tuple(_unnamed(match) for match in matches[:1])


def _rotating(rows: Rows) -> list[tuple[Candidate, Rotation]]:
    """Returns the candidates in whose layout the columns rotate, each with the rotation."""
    measured: dict[bytes, Rotation | None] = {}
    seen = []
    for candidate in candidates(rows.values.shape[1]):
        layout = candidate.order.tobytes()
        if layout not in measured:
            measured[layout] = measure(rows, candidate.order, len(candidate.timescales))
        rotation = measured[layout]
        if rotation is not None:
            seen.append((candidate, rotation))
    return seen


def _with_any_longest(seen: list[tuple[Candidate, Rotation]], rows: Rows, rounding: Float64Array) -> list[Fit]:
    """Returns the closest fits of the candidates, each with the longest timescale that explains these rows best.

    Two schedules can be one sequence of numbers under two longest timescales: the paper's to 500 is tensor2tensor's to
    411.7. They are equally close only where each is at its own best.
    """
    tried = [(longest, rotation) for each, rotation in seen for longest in fitted_longest(each, rotation)]
    rough = [found for each in tried for found in fits(rows, rounding, *each, UNUSUAL_MAX_START)]
    least = min((each.misfit for each in rough), default=0.0)
    near = [each for each in rough if each.misfit <= 3 * max(least, 1.0)]
    return _closest(_refitted(near, rows, rounding, lambda each: sharpened(each, rows)[0]), rows)


def _refitted(found: list[Fit], rows: Rows, rounding: Float64Array, longest: Callable[[Fit], float]) -> list[Fit]:
    """Returns the fits with another longest timescale, which is told for each signal by the closest of its fits."""
    candidates: dict[tuple[Any, ...], Candidate] = {}
    again: dict[tuple[Any, ...], Fit] = {}
    for candidate, same in _by_signal(found).items():
        told = float(f"{longest(same[0]):.12g}")  # two estimates that have converged to one are one signal
        key = candidate.timescales_of, candidate.layout, told
        renewed = candidates.setdefault(key, with_longest(candidate, told))
        for each in same:
            fitted = fit(rows, rounding, renewed, each.rotation, each.start)
            if fitted is not None:
                again[*key, each.start] = fitted
    return list(again.values())


def _closest(fits: list[Fit], rows: Rows) -> list[Fit]:
    """Returns the fit that explains the rows best, and those that the rows cannot tell from it."""
    least = min((fit.misfit for fit in fits), default=0.0)
    # A wrong signal adds the square of its distance. Less than 16 noise variances over all values is chance; and
    # rounding spreads evenly over a unit, so the noise is no less than about a third, however small it happens to be.
    tie = least**2 + 16 * max(least, 1 / 3) ** 2 / rows.values.size
    return [fit for fit in fits if fit.misfit**2 <= tie]


def _on_the_whole(fits: list[Fit], table: CheckedTable) -> list[Fit]:
    """Returns the fits that explain all of the table."""
    differences = ((fit, largest_difference(fit, table)) for fit in fits)
    return [replace(fit, max_abs_diff=largest) for fit, largest in differences if largest is not None]


def _by_signal(fits: list[Fit]) -> dict[Candidate, list[Fit]]:
    """Returns the fits of each signal, the closest first."""
    signals: dict[Candidate, list[Fit]] = {}
    for each in sorted(fits, key=lambda each: each.misfit):
        signals.setdefault(each.candidate, []).append(each)
    return signals


def _matches(fits: list[Fit]) -> tuple[Match, ...]:
    """Returns one match for each signal, the closest first."""

    # Two schedules can be one sequence under two longest timescales: first the usual one, then what somebody would
    # write down.
    def rank(same: list[Fit]) -> tuple[bool, int, float]:
        longest = same[0].candidate.max_timescale
        return longest != USUAL, len(f"{longest:.10g}".rstrip("0")), abs(math.log(longest / USUAL))

    told = sorted(_by_signal(fits).values(), key=rank)
    return tuple(_match(sorted(same, key=lambda fit: fit.start)) for same in told)


def _match(same: list[Fit]) -> Match:
    first, candidate = same[0], same[0].candidate
    return Match(
        conventions=tuple(sorted(candidate.names, key=lambda name: candidate.first_position(name) != first.start)),
        timescales_of=candidate.timescales_of,
        start_index=first.start,
        other_starts=tuple(fit.start for fit in same[1:]),
        layout=candidate.layout,
        max_timescale=candidate.max_timescale,
        timescales=tuple(candidate.timescales.tolist()),
        scale=first.scale,
        max_abs_diff=first.max_abs_diff,
        undecided=("start_index",) if same[1:] else (),
    )


def _unnamed(match: Match) -> Match:
    """Returns the match without what so little cannot tell."""
    undecided = ("conventions", "timescales_of", "layout", "max_timescale", *match.undecided)
    return replace(match, conventions=(), timescales_of=(), max_timescale=None, undecided=undecided)
