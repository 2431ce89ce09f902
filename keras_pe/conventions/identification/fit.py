"""Whether a signal explains a table: on the first rows, then on all of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.identification.rounding import SLACK, Rounding
from keras_pe.conventions.identification.rows import CheckedTable, Rows
from keras_pe.conventions.identification.signals import Signal
from keras_pe.signal.formula import Float64Array


@dataclass(frozen=True, eq=False)
class Fit:
    """A signal that explains rows of a table.

    Attributes:
        signal: The signal.
        start: Position of row 0.
        step: 1, or -1 for positions in descending order.
        scale: Factor of the signal.
        misfit: Root mean square difference, in units of the largest error of each value.
        max_abs_diff: Largest difference.
        rounding: The error of the storage type.
        sizes: Of an image, along the slow and the fast axis.
    """

    signal: Signal
    start: int
    step: int
    scale: float
    misfit: float
    max_abs_diff: float
    rounding: Rounding
    sizes: tuple[int, int] = (0, 0)


def fit(
    values: Float64Array,
    rounding: Rounding,
    signal: Signal,
    positions: npt.NDArray[Any],
    resolved: float = 0.0,
) -> tuple[float, float, float] | None:
    """Returns scale, misfit and largest difference of a signal at these positions, or None if it does not explain them.

    A difference is explained by the storage type and by the error of the float32 formula, which grows with the angle;
    or by the error of rates that were fitted, `resolved`, relative to them.
    """
    expected = signal.at(positions)
    scale = float((values * expected).sum() / (expected * expected).sum())
    left = np.abs(values - scale * expected)
    where = np.abs(positions[:, np.newaxis] if positions.ndim == 1 else positions[:, signal.axis])
    largest = rounding.of(values)
    if (
        scale <= 0
        or (left > SLACK * largest + scale * where * (signal.formula_error() + resolved / signal.columns)).any()
    ):
        return None
    # The formula's error is left out, or else the farthest position would be the most welcome.
    return scale, float(np.sqrt(np.mean((left / largest) ** 2))), float(left.max())


def fit_of_rows(
    rows: Rows, rounding: Rounding, signal: Signal, start: int, step: int, resolved: float = 0.0
) -> Fit | None:
    """Returns the fit of a sequence of consecutive positions, or None."""
    found = fit(rows.values, rounding, signal, start + step * rows.index, resolved)
    return None if found is None else Fit(signal, start, step, *found, rounding)


def closest(fits: list[Fit], size: int) -> list[Fit]:
    """Returns the fit that explains so many values best, and those that they cannot tell from it."""
    least = min((fit.misfit for fit in fits), default=0.0)
    # A wrong signal adds the square of its distance. Less than 16 noise variances over all values is chance; rounding
    # spreads evenly over a unit, so the noise is at least about a third of it.
    tie = least**2 + 16 * max(least, 1 / 3) ** 2 / size
    return [fit for fit in fits if fit.misfit**2 <= tie]


def on_the_whole(found: Fit, table: CheckedTable) -> Fit | None:
    """Returns the fit with its largest difference in the whole table, or None if it does not explain all of it."""
    signal, largest = found.signal, 0.0
    formula, first, slope = signal.formula_error(), np.zeros(0), np.zeros(0)
    for rows in table.blocks():
        positions = found.start + found.step * rows.index
        if not first.size:
            first = found.scale * signal.at(positions)
            ahead = replace(signal, is_cosine=~signal.is_cosine).at(positions)
            slope = found.scale * np.where(signal.is_cosine, -ahead, ahead)
        # Each block is the first one turned on, so that few sines are computed.
        turn = found.step * rows.index[0] / signal.columns
        left = first[: len(rows.index)] * np.cos(turn) + slope[: len(rows.index)] * np.sin(turn) - rows.values
        left = np.abs(left, out=left)
        allowed = SLACK * found.rounding.of(rows.values)
        allowed += np.multiply.outer(np.abs(positions), found.scale * formula)
        if (left > allowed).any():  # False in rows of zeros, whose values are NaN
            return None
        largest = np.fmax(largest, np.fmax.reduce(left, axis=None))
    return replace(found, max_abs_diff=float(largest))
