"""The different signals of images that the conventions make, by what each column holds."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.definition import Convention
from keras_pe.signal.coordinates import Coordinates
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import column_order, join_axes

Flatten = Literal["rows", "columns"]


@dataclass(frozen=True, eq=False)
class ImageSignal:
    """A signal of an image whose places follow each other: along the fast axis, then along the slow one.

    Attributes:
        names: The conventions that make it.
        timescales_of: Those that make it but for the order of the axes.
        slow_first: Whether the first block of columns is that of the slow axis.
        axis: `(channels,)`, 0 where a column is of the slow axis, 1 of the fast one.
        is_cosine: `(channels,)`.
        timescales: `(channels,)`, in positions.
    """

    names: tuple[str, ...]
    timescales_of: tuple[str, ...]
    slow_first: bool
    axis: npt.NDArray[np.intp]
    is_cosine: npt.NDArray[np.bool_]
    timescales: Float64Array

    @property
    def like(self) -> Convention:
        """A convention that has its layout, blocks, timescales and coordinates."""
        return CONVENTIONS[self.timescales_of[0]]

    @property
    def coordinates(self) -> Coordinates | None:
        """Where the places are, None where they are counted."""
        coordinates: Coordinates | None = self.like.grid.get("coordinates")
        return coordinates

    def of_axis(self, axis: int, size: int) -> tuple[Float64Array, Float64Array]:
        """Returns the values and the angles of the columns of one axis: `(size, columns)` each."""
        index = np.arange(size)
        positions = index + self.like.start_index if self.coordinates is None else self.coordinates.of(index, size)
        mine = self.axis == axis
        angles = positions[:, np.newaxis] / self.timescales[mine]
        return np.where(self.is_cosine[mine], np.cos(angles), np.sin(angles)), angles


def flattening(each: Convention) -> Flatten:
    """Returns which places of an image follow each other in a convention's tables."""
    flatten: Flatten = each.grid.get("flatten", "rows")
    return flatten


@lru_cache(maxsize=8)
def image_signals(channels: int) -> tuple[ImageSignal, ...]:
    """Returns every signal of this width that a convention makes of an image, and that with its axes exchanged."""
    signals: dict[tuple[object, ...], ImageSignal] = {}
    for name, each in CONVENTIONS.items():
        if each.axes != 2 or each.schedule is None or not each.has(channels):
            continue
        # Where columns follow each other, the last axis is the slow one.
        own = each.grid.get("reverse_axes", False) == (flattening(each) == "columns")
        for slow_first in (own, not own):
            new = _signal(each, channels, slow_first)
            # Few columns may be the same in two schedules.
            columns = new.axis.tobytes(), new.is_cosine.tobytes(), new.timescales.round(9).tobytes()
            key = *columns, each.start_index, new.coordinates
            known = signals.get(key, new)
            names = (*known.names, name) if slow_first == own else known.names
            others = tuple(dict.fromkeys((*known.timescales_of, name)))
            signals[key] = replace(known, names=names, timescales_of=others)
    return tuple(signals.values())


def _signal(each: Convention, channels: int, slow_first: bool) -> ImageSignal:
    width, scales = channels // 2, each.timescales(channels)
    # Where each column of the two blocks comes to stand.
    blocks = [np.arange(width), width + np.arange(width)]
    labels = join_axes(blocks, each.layout, each.grid.get("blocks", "axis"))
    held = column_order(len(scales), width, each.layout)[labels % width]
    axis = labels // width if slow_first else 1 - labels // width
    return ImageSignal((), (each.name,), slow_first, axis, held >= len(scales), scales[held % len(scales)])
