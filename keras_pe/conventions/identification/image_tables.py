"""Tells the signal of an image, whose places follow each other in a table, and how large the image is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.identification.image_signals import Flatten, ImageSignal, flattening, image_signals
from keras_pe.conventions.identification.match import Grid, Match
from keras_pe.conventions.identification.rotation import LARGEST_ROUNDING, storage_rounding
from keras_pe.conventions.identification.rows import CheckedTable
from keras_pe.signal.formula import Float64Array

# What a float32 angle may be off by, of itself: its rate, its position and their product are rounded.
_ANGLE_ERROR = 1e-6
# Root mean square difference that is taken for chance, in units of what a value may be off by.
_CHANCE = 3.0


@dataclass(frozen=True, eq=False)
class ImageFit:
    """A signal that explains a table, read along the fast axis of an image first.

    Attributes:
        signal: The signal.
        slow: Places along the slow axis.
        fast: Places along the fast axis.
        scale: What the signal is multiplied by.
        misfit: Root mean square difference, in units of what each value may be off by.
        max_abs_diff: Largest difference.
    """

    signal: ImageSignal
    slow: int
    fast: int
    scale: float
    misfit: float
    max_abs_diff: float


def image_matches(table: CheckedTable) -> tuple[Match, ...]:
    """Returns the explanations of a table as that of an image, after class tokens or not."""
    if table.is_cut_by_zeros():
        return ()
    class_tokens = table.class_tokens
    found = image_fits(table.values()[class_tokens:])
    return tuple(match for fit in found for match in _matches(fit, class_tokens))


def _matches(fit: ImageFit, class_tokens: int) -> Iterator[Match]:
    """Returns the image read row after row, and column after column where a convention does so."""
    signal, like = fit.signal, fit.signal.like
    names = {way: tuple(n for n in signal.names if flattening(CONVENTIONS[n]) == way) for way in get_args(Flatten)}
    if fit.slow == fit.fast:  # which cannot be told, and does not matter
        names = {"rows": (*names["rows"], *names["columns"]), "columns": ()}
    ways: list[Flatten] = [way for way in get_args(Flatten) if names[way]]
    for flatten in ways or ["rows"]:
        is_rows = flatten == "rows"
        grid = Grid(
            shape=(fit.slow, fit.fast) if is_rows else (fit.fast, fit.slow),
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
            timescales=tuple(like.timescales(len(signal.axis)).tolist()),
            scale=fit.scale,
            max_abs_diff=fit.max_abs_diff,
            undecided=(),
            grid=grid,
        )


def image_fits(rows: Float64Array) -> list[ImageFit]:
    """Returns the signals of images that explain the rows of a table best, and cannot be told apart by them."""
    channels = rows.shape[1]
    if channels % 4 or len(rows) < 4:
        return []
    sizes = (rows**2).sum(axis=1)
    scale = float(np.sqrt(2 * sizes.mean() / channels))
    if np.abs(sizes - sizes.mean()).max() > LARGEST_ROUNDING * 4 * sizes.mean():
        return []
    fits = [fit for signal in image_signals(channels) if (fit := _fit(rows, scale, signal)) is not None]
    least = min((fit.misfit for fit in fits), default=0.0)
    # As for sequences: less than 16 noise variances over all values is chance.
    tie = least**2 + 16 * max(least, 1 / 3) ** 2 / rows.size
    return [fit for fit in fits if fit.misfit**2 <= tie]


def _fit(rows: Float64Array, scale: float, signal: ImageSignal) -> ImageFit | None:
    """Returns how a signal explains the rows, or None if it does not."""
    fast = _returning(rows[:, signal.axis == 1], scale)
    whole = fast is not None and len(rows) % fast == 0
    # A signal of parts of an image depends on all of it; a counted one may have been cut.
    if fast is None or fast < 2 or len(rows) <= fast or not (whole or signal.coordinates is None):
        return None
    slow = -(-len(rows) // fast)
    expected, angles = np.empty((2, slow, fast, len(signal.axis)))
    for axis, (size, shape) in enumerate(((slow, (slow, 1, -1)), (fast, (1, fast, -1)))):
        mine = signal.axis == axis
        expected[..., mine], angles[..., mine] = (each.reshape(shape) for each in signal.of_axis(axis, size))
    expected, angles = (each.reshape(slow * fast, -1)[: len(rows)] for each in (expected, angles))
    factor = float((rows * expected).sum() / (expected**2).sum())
    left = np.abs(rows - factor * expected)
    if factor <= 0 or left.max() > (LARGEST_ROUNDING + _ANGLE_ERROR * np.abs(angles).max()) * factor:
        return None
    precision = _precision(rows, scale, signal)
    if _misfit(left, precision + _ANGLE_ERROR * np.abs(angles) * factor) > _CHANCE:
        return None
    # Compared without the error of angles, or else the largest would be the most welcome.
    return ImageFit(signal, slow, fast, factor, _misfit(left, precision), float(left.max()))


def _returning(columns: Float64Array, scale: float) -> int | None:
    """Returns after how many rows the columns of the fast axis begin again, or None if they do not."""
    away = np.abs(columns - columns[0]).max(axis=1)
    begun = np.flatnonzero(away <= 2 * LARGEST_ROUNDING * scale)
    begun = begun[begun > 0]
    if not begun.size:
        return None
    # Slow columns may look as if they began again; all rows tell.
    for period in begun[:8]:
        if np.abs(columns[period:] - columns[:-period]).max() <= 2 * LARGEST_ROUNDING * scale:
            return int(period)
    return None


def _precision(rows: Float64Array, scale: float, signal: ImageSignal) -> Float64Array:
    """Returns what each value may be off by, whatever made it: its rounding, and what radii tell of an earlier one."""
    rounding = storage_rounding(rows)
    order = np.lexsort((signal.timescales, signal.axis, signal.is_cosine))
    sines, cosines = np.split(order, 2)
    radii = np.hypot(rows[:, sines], rows[:, cosines])
    noise = float(np.sqrt(np.mean((radii - scale) ** 2)))
    precision: Float64Array = rounding + 1e-7 * scale + (noise if noise > 2 * np.sqrt(np.mean(rounding**2)) else 0.0)
    return precision


def _misfit(left: Float64Array, precision: Float64Array) -> float:
    return float(np.sqrt(np.mean((left / precision) ** 2)))
