"""The different signals of one width that the conventions make, each with all the names it goes by."""

from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import Layout, column_order

USUAL = 1.0e4  # the longest timescale that nearly everybody has


@dataclass(frozen=True, eq=False)
class Candidate:
    """A signal: its columns, its timescales, and who makes it.

    Attributes:
        names: The conventions that make these very numbers.
        timescales_of: The conventions that have these timescales, in whatever layout.
        layout: See `keras_pe.timing_signal`.
        order: What each column holds, as `column_order` says.
        timescales: In positions.
        max_timescale: The 10,000 of the formula.
    """

    names: tuple[str, ...]
    timescales_of: tuple[str, ...]
    layout: Layout
    order: npt.NDArray[np.intp]
    timescales: Float64Array
    max_timescale: float

    @staticmethod
    def first_position(name: str) -> int:
        """Returns where a convention's own tables begin."""
        return CONVENTIONS[name].start_index


def candidates(channels: int) -> list[Candidate]:
    """Returns every schedule of this width in every layout, with those conventions' names that choose it."""
    schedules: list[tuple[Float64Array, list[str]]] = []
    for name, each in CONVENTIONS.items():
        if each.axes > 1 or not each.whole_positions or not each.has(channels):
            continue
        scales = each.timescales(channels)
        for known, names in schedules:
            if len(known) == len(scales) and np.allclose(known, scales, rtol=1e-9, atol=0.0):
                names.append(name)
                break
        else:
            schedules.append((scales, [name]))
    return [signal for scales, names in schedules for signal in _in_every_layout(channels, scales, names)]


def _in_every_layout(channels: int, scales: Float64Array, names: list[str]) -> list[Candidate]:
    signals: dict[bytes, Candidate] = {}
    layouts: list[Layout] = sorted(get_args(Layout), key=lambda layout: CONVENTIONS[names[0]].layout != layout)
    for layout in layouts:
        order = column_order(len(scales), channels, layout)
        # Two columns are the same in every layout.
        orders = {name: column_order(len(scales), channels, CONVENTIONS[name].layout) for name in names}
        same = [name for name in names if np.array_equal(orders[name], order)]
        signals.setdefault(order.tobytes(), Candidate(tuple(same), tuple(names), layout, order, scales, USUAL))
    return list(signals.values())
