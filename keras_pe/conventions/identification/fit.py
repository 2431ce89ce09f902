"""Fits a signal to rows of a table by one factor, and measures the remaining difference."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.identification.encoding_table import SLACK, CheckedTable, Rounding, Rows
from keras_pe.conventions.identification.match import Match
from keras_pe.conventions.identification.signals import Signal
from keras_pe.signal.formula import Float64Array


@dataclass(frozen=True, eq=False)
class Fit:
    """A signal that explains rows of a table.

    Attributes:
        signal: The signal.
        rounding: The error of the storage type.
        scale: Factor of the signal.
        misfit: Root mean square difference, in units of the largest error of each value.
        max_abs_diff: Largest difference.
        start: Position of row 0.
        step: 1, or -1 for positions in descending order.
        sizes: Sizes of an image along the slow and the fast axis.
    """

    signal: Signal
    rounding: Rounding
    scale: float
    misfit: float
    max_abs_diff: float
    start: int = 0
    step: int = 1
    sizes: tuple[int, int] = (0, 0)

    def match(self) -> Match:
        """Returns the match of the fit, with all conventions of its signal."""
        signal = self.signal
        return Match(
            conventions=signal.names,
            timescales_of=signal.timescales_of,
            start_index=self.start,
            other_starts=(),
            layout=signal.layout,
            max_timescale=signal.max_timescale,
            timescales=tuple(signal.timescales.tolist()),
            scale=self.scale,
            max_abs_diff=self.max_abs_diff,
            undecided=(),
            step=self.step,
        )

    def on_the_whole(self, table: CheckedTable) -> "Fit | None":
        """Returns a sequence's fit with the largest difference over all rows; None if a row is not explained."""
        largest = 0.0
        for rows in table.blocks():
            positions = self.start + self.step * rows.index
            found = fit(rows.values, positions, self.signal, self.rounding, scale=self.scale)
            if found is None:
                return None
            largest = max(largest, found.max_abs_diff)
        return replace(self, max_abs_diff=largest)


def fit(
    values: Float64Array,
    positions: npt.NDArray[Any],
    signal: Signal,
    rounding: Rounding,
    resolved: float = 0.0,
    scale: float | None = None,
) -> Fit | None:
    """Returns the fit of a signal to values at positions, by `scale` or the best factor; None if it does not fit.

    The storage type and the float32 formula explain a difference; the error of the formula grows with the angle. The
    error of fitted rates, `resolved`, also explains a difference. It is relative to the rates.
    """
    expected = signal.at(positions)
    if scale is None:
        scale = float((values * expected).sum() / (expected * expected).sum())
    left = np.abs(values - scale * expected)
    where = np.abs(positions[:, np.newaxis] if positions.ndim == 1 else positions[:, signal.axis])
    largest = rounding.of(values)
    allowed = SLACK * largest + scale * where * (signal.formula_error() + resolved / signal.columns)
    if scale <= 0 or (left > allowed).any():
        return None
    # The misfit excludes the formula's error. Otherwise the farthest position, with the largest error, would fit best.
    misfit = float(np.sqrt(np.mean((left / largest) ** 2)))
    return Fit(signal, rounding, scale, misfit, float(left.max()))


def fit_of_rows(
    rows: Rows, signal: Signal, rounding: Rounding, start: int, step: int, resolved: float = 0.0
) -> Fit | None:
    """Returns the fit to rows of a sequence of consecutive positions, or None."""
    found = fit(rows.values, start + step * rows.index, signal, rounding, resolved)
    return found and replace(found, start=start, step=step)


def closest(fits: list[Fit], size: int) -> list[Fit]:
    """Returns the fit with the least misfit, and all fits that `size` values cannot distinguish from it."""
    least = min((fit.misfit for fit in fits), default=0.0)
    # A wrong signal adds the square of its distance. Less than 16 noise variances over all values is chance. Rounding
    # errors are uniform over a unit, so the noise is at least about a third of the unit.
    tie = least**2 + 16 * max(least, 1 / 3) ** 2 / size
    return [fit for fit in fits if fit.misfit**2 <= tie]
