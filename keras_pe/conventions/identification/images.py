"""Tells the signal of an image, whose places follow each other in a table, and how large the image is."""

from collections.abc import Iterator
from typing import get_args

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.identification.fit import Fit, closest, fit
from keras_pe.conventions.identification.match import Grid, Match
from keras_pe.conventions.identification.rounding import rounding_of
from keras_pe.conventions.identification.rows import CheckedTable
from keras_pe.conventions.identification.signals import Flatten, Signal, flattening, image_signals
from keras_pe.signal.formula import Float64Array

# Largest difference of radii and of columns that begin again, relative to the scale. The fit itself is strict.
_LOOSE = 2e-2


def image_matches(table: CheckedTable) -> tuple[Match, ...]:
    """Returns the explanations of a table as that of an image, after class tokens or not."""
    if table.is_cut_by_zeros() or table.channels % 4:
        return ()
    tokens = table.class_tokens
    sizes = (table.closely().values ** 2).sum(axis=1)
    if np.abs(sizes - sizes.mean()).max() > _LOOSE * sizes.mean():
        return ()
    rows = table.values()[tokens:]
    fits = (_fit(table, rows, signal) for signal in image_signals(table.channels))
    return tuple(each for found in closest([f for f in fits if f], rows.size) for each in _matches(found, tokens))


def _fit(table: CheckedTable, rows: Float64Array, signal: Signal) -> Fit | None:
    """Returns how a signal explains the rows, or None if it does not."""
    fast = _returning(rows, np.flatnonzero(signal.axis == 1), float(np.sqrt(2 * np.mean(rows**2))))
    if fast is None or fast < 2 or len(rows) <= fast:
        return None
    slow = -(-len(rows) // fast)
    # A signal of parts of an image depends on all of it; a counted one may have been cut.
    if len(rows) < slow * fast and signal.coordinates is not None:
        return None
    sines, cosines = signal.pairs
    radii = np.hypot(rows[:, sines], rows[:, cosines])
    off = float(np.abs(radii / np.sqrt(np.mean(radii**2)) - 1).max())
    rounding = rounding_of(table, rows, off) if off < _LOOSE else None
    if rounding is None:
        return None
    index = np.divmod(np.arange(len(rows)), fast)
    places = signal.coordinates
    along = (
        each + float(signal.like.start_index) if places is None else places.of(each, size)
        for each, size in zip(index, (slow, fast), strict=True)
    )
    found = fit(rows, rounding, signal, np.stack(list(along), axis=1))
    return None if found is None else Fit(signal, signal.like.start_index, 1, *found, rounding, (slow, fast))


def _returning(rows: Float64Array, fast: npt.NDArray[np.intp], scale: float) -> int | None:
    """Returns after how many rows the columns of the fast axis begin again, or None if they do not."""
    few = fast[:8]
    begun = np.flatnonzero(np.abs(rows[1:, few] - rows[0, few]).max(axis=1) <= _LOOSE * scale) + 1
    # Slow columns may look as if they began again; all rows tell.
    for period in begun[:8]:
        if all(np.abs(rows[period:, some] - rows[:-period, some]).max() <= _LOOSE * scale for some in (few, fast)):
            return int(period)
    return None


def _matches(found: Fit, class_tokens: int) -> Iterator[Match]:
    """Returns the image read row after row, and column after column where a convention does so."""
    signal, like = found.signal, found.signal.like
    slow, fast = found.sizes
    names = {way: tuple(n for n in signal.names if flattening(CONVENTIONS[n]) == way) for way in get_args(Flatten)}
    if slow == fast:  # Then both are the same.
        names = {"rows": (*names["rows"], *names["columns"]), "columns": ()}
    ways: list[Flatten] = [way for way in get_args(Flatten) if names[way]]
    for flatten in ways or ["rows"]:
        is_rows = flatten == "rows"
        grid = Grid(
            shape=(slow, fast) if is_rows else (fast, slow),
            class_tokens=class_tokens,
            flatten=flatten,
            reverse_axes=signal.slow_first != is_rows,
            blocks=like.grid.get("blocks", "axis"),
            coordinates=signal.coordinates,
        )
        yield Match(
            conventions=names[flatten],
            timescales_of=signal.timescales_of,
            start_index=like.start_index,
            other_starts=(),
            layout=like.layout,
            max_timescale=like.max_timescale,
            timescales=tuple(signal.timescales.tolist()),
            scale=found.scale,
            max_abs_diff=found.max_abs_diff,
            undecided=(),
            grid=grid,
        )
