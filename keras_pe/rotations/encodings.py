"""The encoding of one axis, whole positions and fractions: made once for all layers and calls that need the same."""

import weakref
from typing import Any, NamedTuple

import numpy as np

from keras_pe.rotations.composed import ComposedEncoding
from keras_pe.rotations.digits import LIMIT
from keras_pe.rotations.fractional import FractionalEncoding
from keras_pe.rotations.tables import TabulatedEncoding
from keras_pe.signal.layouts import Layout

MOST_ROWS = 8_192  # of a table; a longer one is composed: 16 MiB at 512 channels are enough


class AxisConfiguration(NamedTuple):
    """What the encoding of one axis is made from."""

    timescales: tuple[float, ...]
    channels: int
    layout: Layout
    start_index: int
    max_length: int | None
    dtype: str


class AxisEncoding:
    """The encoding of one axis at positions that are counted from `start_index`."""

    def __init__(self, configuration: AxisConfiguration) -> None:
        scales, channels, layout, start_index, max_length, dtype = configuration
        low, high = (-LIMIT - start_index, LIMIT - start_index) if max_length is None else (0, max_length)
        arguments = np.asarray(scales, np.float64), channels, layout, start_index, dtype
        self._whole: ComposedEncoding | TabulatedEncoding = (
            TabulatedEncoding(*arguments, max_length)
            if max_length is not None and max_length <= MOST_ROWS
            else ComposedEncoding(*arguments, low, high)
        )
        self._fractional = FractionalEncoding(*arguments, low, high)

    def range(self, length: Any, start: Any = None) -> Any:
        """Returns the signal at `start`, an integer scalar or None for 0, and on: `(length, channels)`."""
        return self._whole.range(length, start)

    def at(self, positions: Any) -> Any:
        """Returns the signal at integer positions: `(*positions.shape, channels)`."""
        return self._whole.at(positions)

    def between(self, whole: Any, nearest: Any, fraction: Any) -> Any:
        """Returns the signal at positions that need not be whole; see `FractionalEncoding.at`."""
        return self._fractional.at(whole, nearest, fraction)


_made: weakref.WeakValueDictionary[AxisConfiguration, AxisEncoding] = weakref.WeakValueDictionary()


def shared_encoding(configuration: AxisConfiguration) -> AxisEncoding:
    """Returns the encoding of a configuration: the same object while somebody holds it."""
    encoding = _made.get(configuration)
    if encoding is None:
        encoding = _made[configuration] = AxisEncoding(configuration)
    return encoding
