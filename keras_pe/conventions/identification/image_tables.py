"""Identifies the signal and the size of an image whose positions are the rows of a table."""

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.identification.encoding_table import LOOSE, CheckedTable, Rounding
from keras_pe.conventions.identification.fit import Fit, closest, fit
from keras_pe.conventions.identification.match import Grid, Match
from keras_pe.conventions.identification.signals import Flatten, Signal, flattening, image_signals
from keras_pe.signal.formula import Float64Array


def image_matches(table: CheckedTable) -> tuple[Match, ...]:
    """Returns the matches of a table as an image, with or without class tokens before it."""
    tokens, rows = table.class_tokens, table.rows().values
    sizes = (rows**2).sum(axis=1)
    is_cut_by_zeros = len(rows) < len(table) - tokens
    if is_cut_by_zeros or table.channels % 4 or np.abs(sizes - sizes.mean()).max() > LOOSE * sizes.mean():
        return ()
    fits = (_fit(table, rows, signal) for signal in image_signals(table.channels))
    return tuple(each for found in closest([f for f in fits if f], rows.size) for each in _matches(found, tokens))


def _fit(table: CheckedTable, rows: Float64Array, signal: Signal) -> Fit | None:
    """Returns the fit of a signal to the rows, or None if it does not fit."""
    fast = _returning(rows, np.flatnonzero(signal.axis == 1), float(np.sqrt(2 * np.mean(rows**2))))
    if fast is None or fast < 2 or len(rows) <= fast:
        return None
    slow, places = -(-len(rows) // fast), signal.coordinates
    # Fractional coordinates depend on the whole image, so it cannot be cut. An image with counted positions can be.
    is_cut = len(rows) < slow * fast
    rounding = Rounding.from_radii(np.abs(signal.points(rows)), table, rows)
    if rounding is None or (is_cut and places is not None):
        return None
    index, sizes, first = np.divmod(np.arange(len(rows)), fast), (slow, fast), float(signal.like.start_index)
    along = [places.of(*each) if places else first + each[0] for each in zip(index, sizes, strict=True)]
    found = fit(rows, np.stack(along, axis=1), signal, rounding)
    return found and replace(found, start=signal.like.start_index, sizes=sizes)


def _returning(rows: Float64Array, fast: npt.NDArray[np.intp], scale: float) -> int | None:
    """Returns the period in rows of the columns of the fast axis, or None if they are not periodic."""
    few = fast[:8]
    begun = np.flatnonzero(np.abs(rows[1:, few] - rows[0, few]).max(axis=1) <= LOOSE * scale) + 1
    # A few columns may look periodic by chance, so all rows are compared.
    for period in begun[:8]:
        if all(np.abs(rows[period:, some] - rows[:-period, some]).max() <= LOOSE * scale for some in (few, fast)):
            return int(period)
    return None


def _matches(found: Fit, class_tokens: int) -> Iterator[Match]:
    """Yields the match of the image as rows, and as columns if a convention flattens by columns."""
    signal, (slow, fast) = found.signal, found.sizes
    names = {way: tuple(n for n in signal.names if flattening(CONVENTIONS[n]) == way) for way in get_args(Flatten)}
    if slow == fast:  # In a square image, both orders give one grid.
        names = {"rows": (*names["rows"], *names["columns"]), "columns": ()}
    ways: list[Flatten] = [way for way in get_args(Flatten) if names[way]]
    for flatten in ways or ["rows"]:
        is_rows = flatten == "rows"
        grid = Grid(
            shape=(slow, fast) if is_rows else (fast, slow),
            class_tokens=class_tokens,
            flatten=flatten,
            reverse_axes=signal.slow_first != is_rows,
            blocks=signal.like.grid.get("blocks", "axis"),
            coordinates=signal.coordinates,
        )
        yield replace(found.match(), conventions=names[flatten], grid=grid)
