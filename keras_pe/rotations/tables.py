"""The encoding of a bounded axis: rows of one table, the fastest graph."""

from typing import Any

import numpy as np

from keras_pe.rotations.lookup import Table, guarded, rows_from, take_rows
from keras_pe.rotations.rotations import exact_rotations, split
from keras_pe.signal.layouts import Layout, assemble
from keras_pe.signal.timescales import Float64Array


class TabulatedEncoding:
    """The encoding of one axis of at most `max_length` positions, counted from `start_index`."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str, max_length: int
    ) -> None:
        rows = exact_rotations(start_index + np.arange(max_length), timescales).astype(dtype)
        self._max_length = max_length
        self._table = Table(guarded(assemble(*split(rows), channels, layout)))
        self._zeros = Table(np.zeros(max_length, "int32"))

    def range(self, length: Any, start: Any = None) -> Any:
        """Returns the signal at `start`, an integer scalar or None for 0, and on: `(length, channels)`."""
        return rows_from(self._table.tensor(), length, start, self._max_length, self._zeros)

    def at(self, positions: Any) -> Any:
        """Returns the signal at integer positions: `(*positions.shape, channels)`."""
        return take_rows(self._table.tensor(), positions, self._max_length, self._zeros)
