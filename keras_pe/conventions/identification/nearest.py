"""The convention that comes nearest to a table which none of them made."""

from typing import Any, NamedTuple

import numpy as np

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.identification.longest import UNUSUAL_MAX_START
from keras_pe.conventions.identification.rows import CheckedTable, Rows, as_matrix
from keras_pe.conventions.identification.signals import Signal, sequence_signals


class Nearest(NamedTuple):
    """A convention, and how far a table is from it.

    Attributes:
        convention: Its name.
        start_index: The first position that fits best.
        step: 1, or -1 for positions in descending order.
        scale: The factor of its signal that fits best.
        max_abs_diff: The largest difference that remains, in the table's own units.
        relative: The root mean square of the difference, as a share of the table's own.
    """

    convention: str
    start_index: int
    step: int
    scale: float
    max_abs_diff: float
    relative: float


def nearest(table: Any) -> Nearest | None:
    """Returns the convention whose signal is nearest, scaled, from a first position of -2,048 to 2,047.

    Args:
        table: `(length, channels)`.

    Returns:
        The nearest convention, or None if no convention has a signal of this width.
    """
    rows = CheckedTable(as_matrix(np.asarray(table))).closely()
    starts = np.arange(-UNUSUAL_MAX_START, UNUSUAL_MAX_START)
    starts = starts[np.argsort(np.abs(starts), kind="stable")]
    best: tuple[float, Nearest] | None = None
    for signal in (each for each in sequence_signals(rows.values.shape[1], distances=True) if each.names):
        sines, cosines = signal.pairs
        points, rates = rows.values[:, cosines] + 1j * rows.values[:, sines], 1.0 / signal.columns[sines]
        for step in (1, -1):
            turned = (points * np.exp(-1j * step * np.multiply.outer(rows.index, rates))).sum(axis=0)
            if best is not None and np.abs(turned).sum() <= best[0]:
                continue
            agreement = (np.exp(-1j * np.multiply.outer(starts, rates)) * turned).real.sum(axis=1)
            start = int(starts[np.argmax(agreement)])
            if best is None or agreement.max() > best[0]:
                best = float(agreement.max()), _at(rows, signal, start, step)
    return best[1] if best else None


def _at(rows: Rows, signal: Signal, start: int, step: int) -> Nearest:
    expected = signal.at(start + step * rows.index)
    scale = float((expected * rows.values).sum() / (expected**2).sum())
    off = rows.values - scale * expected
    relative = float(np.sqrt(np.mean(off**2) / np.mean(rows.values**2)))
    names = sorted(signal.names, key=lambda name: CONVENTIONS[name].start_index != start)
    return Nearest(names[0], start, step, scale, float(np.abs(off).max()), relative)
