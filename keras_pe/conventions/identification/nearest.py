"""Finds the nearest convention to a table without a match."""

from typing import Any, NamedTuple

import numpy as np

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.identification.encoding_table import CheckedTable, as_matrix
from keras_pe.conventions.identification.signal_search import UNUSUAL_MAX_START
from keras_pe.conventions.identification.signals import sequence_signals


class Nearest(NamedTuple):
    """The convention nearest to a table, and the distance.

    Attributes:
        convention: The name of the convention.
        start_index: The first position that fits best.
        step: 1, or -1 for positions in descending order.
        scale: The factor of the signal that fits best.
        max_abs_diff: The largest remaining difference, in the table's own units.
        relative: The root mean square of the difference, divided by that of the table.
    """

    convention: str
    start_index: int
    step: int
    scale: float
    max_abs_diff: float
    relative: float


def nearest(table: Any) -> Nearest | None:
    """Returns the convention with the nearest scaled signal, for first positions from -2,048 to 2,047.

    Args:
        table: `(length, channels)`.

    Returns:
        The nearest convention, or None if no convention has a signal of this width.
    """
    rows = CheckedTable(as_matrix(np.asarray(table))).closely()
    index, values = rows.index, rows.values
    starts = np.array(sorted(range(-UNUSUAL_MAX_START, UNUSUAL_MAX_START), key=abs))
    best, most = None, 0.0
    for signal in (each for each in sequence_signals(values.shape[1], distances=True) if each.names):
        for step in (1, -1):
            # The correlation with the signal is largest at the start at which the rotated points agree.
            turned = (signal.points(values) * np.exp(-1j * step * np.multiply.outer(index, signal.rates))).sum(axis=0)
            agreement = (np.exp(-1j * np.multiply.outer(starts, signal.rates)) * turned).real.sum(axis=1)
            if best is None or agreement.max() > most:
                most = float(agreement.max())
                best = signal, int(starts[np.argmax(agreement)]), step
    if best is None:
        return None
    signal, start, step = best
    expected = signal.at(start + step * index)
    scale = float((expected * values).sum() / (expected**2).sum())
    off = values - scale * expected
    relative = float(np.sqrt(np.mean(off**2) / np.mean(values**2)))
    name = min(signal.names, key=lambda name: CONVENTIONS[name].start_index != start)
    return Nearest(name, start, step, scale, float(np.abs(off).max()), relative)
