"""The convention that comes nearest to a table which none of them made."""

from typing import Any, NamedTuple

import numpy as np

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.signal.formula import timing_signal


class Nearest(NamedTuple):
    """A convention, and how far a table is from it.

    Attributes:
        convention: Its name.
        start_index: The first position that fits best.
        scale: What its signal is multiplied by, to fit best.
        max_abs_diff: The largest difference that remains, in the table's own units.
        relative: The root mean square of the difference, as a share of the table's own.
    """

    convention: str
    start_index: int
    scale: float
    max_abs_diff: float
    relative: float


def nearest(table: Any) -> Nearest | None:
    """Returns the convention whose signal, from position 0, 1 or 2 and scaled, is nearest; None where none can be.

    Args:
        table: `(length, channels)`.
    """
    values = np.asarray(table, np.float64)
    size = float(np.sqrt(np.mean(values**2)))
    found = []
    rows = [each for each in CONVENTIONS.values() if each.axes == 1 and each.schedule and each.has(values.shape[1])]
    for each in rows if size else ():
        timescales = each.timescales(values.shape[1])
        for start in range(3):
            positions = np.arange(start, start + len(values))
            signal = timing_signal(positions, values.shape[1], layout=each.layout, timescales=timescales)
            scale = float((signal * values).sum() / (signal**2).sum())
            off = values - scale * signal
            distance = float(np.sqrt(np.mean(off**2))) / size
            found.append(Nearest(each.name, start, scale, float(np.abs(off).max()), distance))
    return min(found, key=lambda each: each.relative, default=None)
