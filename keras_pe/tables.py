"""Rows looked up in a table, and refused where there are none: the encoding of a bounded axis is one."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_pe.concrete import Table, known_length
from keras_pe.layouts import Layout, assemble
from keras_pe.rotations import exact_rotations, split
from keras_pe.timescales import Float64Array


class TabulatedEncoding:
    """The encoding of one axis of at most `max_length` positions, counted from `start_index`: the fastest graph."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str, max_length: int
    ) -> None:
        rows = exact_rotations(start_index + np.arange(max_length), timescales).astype(dtype)
        self._table = Table(assemble(*split(rows), channels, layout))

    def range(self, length: Any, start: Any = None) -> Any:
        """Returns the signal at `start`, an integer scalar or None for 0, and on: `(length, channels)`."""
        return rows_from(self._table.tensor(), length, start)

    def at(self, positions: Any) -> Any:
        """Returns the signal at integer positions: `(*positions.shape, channels)`."""
        return take_rows(self._table.tensor(), positions)


def rows_from(table: Any, length: Any, start: Any = None) -> Any:
    """Returns `table[start : start + length]`, `(length, columns)`, and fails where the table is shorter."""
    known = known_length(length)
    if start is not None or (known is None and keras.config.backend() != "tensorflow"):
        positions = ops.arange(length, dtype="int32")
        return take_rows(table, positions if start is None else positions + start)
    # TensorFlow checks the size of a slice, but ONNX's Slice returns what there is, and a single row would then be
    # broadcast: there the reshape refuses. (TensorFlow itself optimizes the reshape away.)
    shape = (length, table.shape[-1])
    return ops.reshape(ops.slice(ops.convert_to_tensor(table), (0, 0), shape), shape)


def take_rows(table: Any, rows: Any) -> Any:
    """Returns `table[rows]`, `(..., columns)`, and fails where a row is not there.

    A negative index counts from the end in some runtimes: it is pointed past the end, where all of them refuse.
    """
    return ops.take(table, ops.where(rows < 0, table.shape[0], rows), axis=0)
