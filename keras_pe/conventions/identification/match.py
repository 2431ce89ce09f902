"""Tells which convention made a table of encodings."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.identification.candidates import Candidate, candidates
from keras_pe.conventions.identification.max_timescale import fitted_longest
from keras_pe.conventions.identification.table import LARGEST_ROUNDING, Rotation, measure, storage_rounding
from keras_pe.layouts import Layout
from keras_pe.signal import timing_signal
from keras_pe.timescales import Float64Array

# First positions that are looked through.
_STARTS = np.arange(2**17)
# Error of the float32 formula, `sin(float32(position) * inverse_timescale)`, per radian: 1.2e-7 was measured.
_FORMULA_ERROR = 2e-7


@dataclass(frozen=True)
class Match:
    """One explanation of a table.

    Attributes:
        conventions: Every convention that makes these numbers, those first whose first row this is. Empty where the
            timescales are known but the layout is nobody's.
        timescales_of: Every convention that has these timescales.
        start_index: Position of the first row.
        other_starts: Further first positions (below 2**17) that explain the table as well, given its precision.
        layout: "concatenated" or "interleaved"; two columns are both, and the first convention's layout is given.
        max_timescale: The 10,000 of the formula.
        timescales: In positions; one more than `channels // 2` where the last column is a sine without its cosine.
        scale: What the signal was multiplied by.
        max_abs_diff: Largest difference that remains, in the table's own units. Rows of zeros are left out.
    """

    conventions: tuple[str, ...]
    timescales_of: tuple[str, ...]
    start_index: int
    other_starts: tuple[int, ...]
    layout: Layout
    max_timescale: float
    timescales: tuple[float, ...]
    scale: float
    max_abs_diff: float

    def layer_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `SinusoidalPositionEncoding` that make the table, but for its scale."""
        return {"start_index": self.start_index, "layout": self.layout, "timescales": self.timescales}


class _Fit(NamedTuple):
    candidate: Candidate
    start: int
    scale: float
    misfit: float  # root mean square difference, in units of what each value may be off by
    max_abs_diff: float


def identify(table: npt.ArrayLike) -> tuple[Match, ...]:
    """Returns what made a table of encodings: one match, several that it cannot tell apart, or none.

    The rows must be consecutive positions, from any first one in 0 to 2**17 - 1; they may be cut, scaled by a positive
    factor, stored in float32, float16 or bfloat16, and some may be zeroed, as fairseq's padding row is. Tables of the
    float32 formula are recognised until its rounding scatters the angles by 5e-3, at some 40,000 radians.

    Args:
        table: `(length, channels)`, or `(1, length, channels)`, with at least 4 rows and 2 channels.

    Returns:
        The matches, the closest first. Empty if no convention makes this table, with any longest timescale.

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
    rows, kept = _checked(table)
    channels = rows.shape[1]
    rounding = storage_rounding(rows)
    rotations: dict[bytes, Rotation | None] = {}
    seen: list[tuple[Candidate, Rotation]] = []
    for candidate in candidates(channels):
        key = candidate.order.tobytes()
        if key not in rotations:
            rotations[key] = measure(rows, kept, candidate.order, len(candidate.timescales))
        rotation = rotations[key]
        if rotation is not None:
            seen.append((candidate, rotation))
    fits = [fit for each, rotation in seen for fit in _fits(rows, kept, each, rotation, rounding)]
    if not fits:
        for candidate, rotation in seen:
            longest = fitted_longest(candidate, rotation, channels)
            for other in longest:
                fits += _fits(rows, kept, other, rotation, rounding)
    return _matches(fits, int(kept.sum()) * channels)


def _checked(table: npt.ArrayLike) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
    given = np.asarray(table)
    if given.dtype.kind not in "iuf" and given.dtype.name != "bfloat16":
        raise TypeError(f"`table` must hold real numbers. Received: an array of dtype {given.dtype}.")
    rows = given.astype(np.float64)
    if rows.ndim == 3 and rows.shape[0] == 1:
        rows = rows[0]
    if rows.ndim != 2 or rows.shape[1] < 2 or not np.isfinite(rows).all():
        raise ValueError(
            "`table` must be (length, channels) with at least 2 channels, and finite. "
            f"Received: an array of shape {given.shape}."
        )
    kept: npt.NDArray[np.bool_] = np.any(rows != 0, axis=1)
    if kept.sum() < 4:
        raise ValueError(
            "`table` must have at least 4 rows that are not zero: fewer fit too many conventions. "
            f"Received: {kept.sum()} such rows."
        )
    return rows, kept


def _fits(
    rows: Float64Array,
    kept: npt.NDArray[np.bool_],
    candidate: Candidate,
    rotation: Rotation,
    rounding: Float64Array,
) -> list[_Fit]:
    """Returns the first positions at which a candidate explains the table within its precision."""
    channels, index = rows.shape[1], np.flatnonzero(kept)
    # A table that was rounded before it was scaled is noisier than its own type tells: what no rotation explains.
    noise = rotation.noise * rotation.scale
    noise = noise if noise > 2 * np.sqrt(np.mean(rounding[kept] ** 2)) else 0.0
    rates = 1.0 / candidate.timescales
    # A slow rate, from a power or an exponential in float32, is off by up to a millionth of itself.
    by_timescale = np.minimum(1e-6 * rates, _FORMULA_ERROR * np.maximum(1.0, rates))
    error = np.concatenate([by_timescale, by_timescale, [0.0]])[candidate.order]
    found = []
    for start in _starts(candidate, rotation, len(rows), channels // 2):
        positions = index + start
        signal = timing_signal(positions, channels, layout=candidate.layout, timescales=candidate.timescales)
        scale = float((rows[kept] * signal).sum() / (signal * signal).sum())
        left = np.abs(rows[kept] - scale * signal)
        formula = error * positions[:, np.newaxis] * rotation.scale  # by column, as the rates differ
        precision = rounding[kept] + noise + 1e-7 * rotation.scale
        # Three, because a table of eight values, the least there is, knows its own noise no better than that.
        if _misfit(left, precision + formula) <= 3 and (left <= LARGEST_ROUNDING * rotation.scale + formula).all():
            # Compared without the formula's error, or else the farthest position would be the most welcome.
            found.append(_Fit(candidate, start, scale, _misfit(left, precision), float(left.max())))
    return found


def _misfit(left: Float64Array, precision: Float64Array) -> float:
    return float(np.sqrt(np.mean((left / precision) ** 2)))


def _starts(candidate: Candidate, rotation: Rotation, length: int, pairs: int) -> npt.NDArray[np.intp]:
    """Returns the first positions whose angles are near the measured ones, at most the 32 nearest."""
    rates = 1.0 / candidate.timescales[:pairs]
    # Whole positions tell a rate only up to whole turns per row.
    apart = rates - rotation.rates
    apart -= _whole_turns(apart)
    # Far more than a table may be off by, and yet it leaves few of the candidates and of the positions.
    near = 4 * LARGEST_ROUNDING + _FORMULA_ERROR * length
    if np.abs(apart).max() * length / 2 > near:
        return _STARTS[:0]
    phases = rotation.phases - rotation.centre * (rotation.rates + apart)
    starts = _STARTS
    for pair in dict.fromkeys([0, pairs - 1, pairs // 2, pairs // 4]):
        away = starts * rates[pair] - phases[pair]
        starts = starts[np.abs(away - _whole_turns(away)) < near + _FORMULA_ERROR * max(1.0, rates[pair]) * starts]
    away = np.multiply.outer(starts, rates) - phases
    away -= _whole_turns(away)
    return starts[np.argsort((away**2).sum(axis=1), kind="stable")[:32]]


def _whole_turns(radians: Float64Array) -> Float64Array:
    turn = 2 * np.pi
    whole: Float64Array = turn * np.round(radians / turn)
    return whole


def _matches(fits: list[_Fit], size: int) -> tuple[Match, ...]:
    """Returns the fits that a table of `size` values cannot tell from the closest, one match for each signal."""
    if not fits:
        return ()
    fits = sorted(fits, key=lambda fit: fit.misfit)
    # A wrong signal adds the square of its distance. Less than 16 noise variances over the whole table is chance; and
    # rounding spreads evenly over a unit, so the noise is no less than about a third, however small it happens to be.
    tie = fits[0].misfit ** 2 + 16 * max(fits[0].misfit, 1 / 3) ** 2 / size
    signals: dict[int, list[_Fit]] = {}
    for fit in fits:
        if fit.misfit**2 <= tie:
            signals.setdefault(id(fit.candidate), []).append(fit)
    matches = [_match(sorted(same, key=lambda fit: fit.start)) for same in signals.values()]
    # Two schedules can be one sequence under two longest timescales: first the one that somebody would write down.
    return tuple(sorted(matches, key=lambda match: len(f"{match.max_timescale:.10g}")))


def _match(same: list[_Fit]) -> Match:
    first = same[0]
    candidate = first.candidate
    return Match(
        conventions=tuple(sorted(candidate.names, key=lambda name: candidate.first_position(name) != first.start)),
        timescales_of=candidate.timescales_of,
        start_index=int(first.start),
        other_starts=tuple(int(fit.start) for fit in same[1:]),
        layout=candidate.layout,
        max_timescale=candidate.max_timescale,
        timescales=tuple(candidate.timescales.tolist()),
        scale=first.scale,
        max_abs_diff=first.max_abs_diff,
    )
