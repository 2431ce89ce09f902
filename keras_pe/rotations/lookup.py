"""Tables as tensors of each backend, lookups of rows, and the encoding from a whole table."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.rotations.static_values import count_up, is_eager, known_length, torch_is_tracing, visible
from keras_pe.signal.formula import Float64Array, sines_and_cosines
from keras_pe.signal.layouts import Layout, assemble

_AT_ONCE = 256  # rows of a table to compute at once
MOST_ROWS = 8_192  # most positions of a table: 16 MiB for 512 channels; more are composed


class Table:
    """Rows of numbers that never change, and the tensors made of them: one for a device, and one for each graph.

    An eager tensor must not enter a graph of TensorFlow: there it would be a further input, which an export asks for.
    """

    def __init__(self, rows: npt.NDArray[Any]) -> None:
        self.rows = rows
        self.shape = rows.shape  # TorchDynamo would make a tensor of the array to look at its shape
        self._tensors: dict[Any, Any] = {}
        # TorchDynamo would trace the conversion of an array, but takes a tensor as it is.
        self._host = _torch_tensor(rows) if keras.config.backend() == "torch" else None

    def tensor(self) -> Any:
        """Returns the rows as a tensor of the backend."""
        backend = keras.config.backend()
        if backend == "tensorflow":
            return self._tensor_of_tensorflow()
        if backend == "torch":
            return self._tensor_of_torch()
        return self._tensor_of_jax()

    def _tensor_of_tensorflow(self) -> Any:
        import tensorflow as tf

        if tf.executing_eagerly():
            if not self._tensors:
                self._tensors["eager"] = tf.constant(self.rows)
            return self._tensors["eager"]
        graph = tf.compat.v1.get_default_graph()
        while type(graph).__name__ == "CondBranchFuncGraph":  # both branches take what the graph around them has
            graph = graph.outer_graph
        # Equal layers share a table, and so its constant. It lives as long as the graph.
        if not hasattr(graph, "keras_pe_tables"):
            graph.keras_pe_tables = {}
        if self not in graph.keras_pe_tables:
            with graph.as_default(), tf.control_dependencies(None):
                graph.keras_pe_tables[self] = tf.constant(self.rows)
        return graph.keras_pe_tables[self]

    def _tensor_of_jax(self) -> Any:
        import jax

        # Arrays of one device, or of switched-off 64 bits, are not those of another. Held arrays are never traced.
        key = jax.config.jax_default_device, jax.config.jax_enable_x64
        copy = self._tensors.get(key)
        if copy is None or copy.is_deleted():
            # Keras' conversion would end in an error where `jax_debug_nans` is on: a guarded table has a row of NaN.
            with jax.ensure_compile_time_eval():
                copy = self._tensors[key] = jax.device_put(self.rows)
        return copy

    def _tensor_of_torch(self) -> Any:
        if torch_is_tracing():
            return ops.convert_to_tensor(self._host)
        kept = self._tensors.get("kept", self._host)  # that of the device it was last asked for
        found = ops.convert_to_tensor(kept)  # itself where that is still the device
        if found is not kept:
            found = self._tensors["kept"] = ops.convert_to_tensor(self._host)
        return found


def _torch_tensor(rows: npt.NDArray[Any]) -> Any:
    import torch

    with torch.inference_mode(False):  # tensors made in inference mode cannot be trained through
        return torch.from_numpy(rows)


def append_guard(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns a table with a last row of NaN: what a runtime that does not check its indices is to read."""
    return np.concatenate([rows, np.full((1, *rows.shape[1:]), np.nan, rows.dtype)])


def take(table: Any, rows: Any, xp: ModuleType = ops) -> Any:
    """Returns `table[rows]`, `(..., columns)`. No row is negative: Keras would look for such, to wrap them."""
    if xp is ops and keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(ops.convert_to_tensor(table), rows)
    if xp is ops and keras.config.backend() == "torch" and len(table.shape) <= 2:
        import torch

        # Keras' way with one dimension is unknown to PyTorch's older exporter to ONNX.
        return table[rows] if len(table.shape) == 1 else torch.nn.functional.embedding(rows, table)
    return xp.take(table, rows, axis=0)


FAILURE_SCOPE = "position_out_of_reach"
"""Name of the operations of a graph that fail for positions out of reach; a sentence follows as a scope inside it."""


def failing_out_of_reach(low: int, high: int) -> contextlib.AbstractContextManager[None]:
    """Returns a context that names the operations of a graph by a sentence on the positions that have a row.

    A graph cannot raise an error of its own in every format. The errors of TensorFlow and of ONNX Runtime name the
    operation that fails, so the sentence reaches the user without another operator.

    Args:
        low: Lowest position that has a row.
        high: The first position past the last row.
    """
    if keras.config.backend() != "tensorflow" or is_eager():
        return contextlib.nullcontext()
    return _named(FAILURE_SCOPE, f"positions_must_be_from_{low}_to_{high - 1}")


@contextlib.contextmanager
def _named(outer: str, inner: str) -> Iterator[None]:
    """Names operations of TensorFlow by two scopes: a number that makes the name unique goes to the outer one."""
    import tensorflow as tf

    with tf.name_scope(outer), tf.name_scope(inner):
        yield


def take_from_each(table: Any, columns: Any) -> Any:
    """Returns the given columns of each row, of as many dimensions and, but for the last, of the same sizes."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(table, columns, batch_dims=len(table.shape) - 1)  # Keras' way fails where there are no rows
    if keras.config.backend() == "torch":
        import torch

        return torch.gather(table, -1, columns.long())  # Keras' way compares sizes that PyTorch's export leaves open
    return ops.take_along_axis(table, columns, axis=-1)


def among(rows: Any, count: int) -> Any:
    """Returns `rows`, and `count` for those that are not among the first `count`.

    A negative index counts from the end in some runtimes: it is pointed past the end, where those that check refuse.
    """
    end = ops.cast(count, rows.dtype)  # Keras on JAX makes floats of a number beside it under a floatx of bfloat16
    return ops.where(rows >= 0, ops.minimum(rows, end), end)


def row_or_guard(rows: Any, zeros: Table, low: int, high: int) -> Any:
    """Returns `rows`, and fails where one is the first past the end: that of NaN in a table that is guarded.

    An index past the end is an error on a CPU. XLA and WebGPU take the last row instead, the older WebGPU takes 0. So
    an index that may be past the end is also looked up among as many zeros. Without an error there, the row of NaN is
    read.
    """
    with failing_out_of_reach(low, high):
        return rows + take(zeros.tensor(), rows)


def rows_from(table: Any, length: Any, start: Any, count: int, at: Callable[[Any], Any]) -> Any:
    """Returns `table[start : start + length]`, `(length, columns)`, and fails past the first `count` rows.

    `at` looks rows up one by one. A range that can be seen to be out of reach must have been refused.
    """
    known = known_length(length)
    seen = visible(0 if start is None else start) if is_eager() and known is not None else None
    if seen is not None:
        return ops.convert_to_tensor(table)[int(seen) : int(seen) + length]
    if start is not None or (known is None and keras.config.backend() != "tensorflow"):
        positions = count_up(length)
        return at(positions if start is None else positions + start)
    # TensorFlow checks the size of a slice, but ONNX's Slice returns what there is, and a single row would then be
    # broadcast: there the reshape refuses. (TensorFlow itself optimizes the reshape away.)
    columns = table.shape[-1]
    # A guarded table has one row more than positions. If the length is too long, the slice therefore begins at the
    # third row, which leaves too few rows.
    first = 0 if known is not None or table.shape[0] == count else ops.cast(length > count, "int32") * 2
    with failing_out_of_reach(0, count):
        rows = ops.slice(ops.convert_to_tensor(table), (first, 0), (length, columns))
    return ops.reshape(rows, (length, columns))


class TrainedRows:
    """Rows of a trained table, `(length, columns)`: an error or NaN for a position that has no row.

    A trained table cannot end in a row of NaN. At an index past the end, compiled code, GPUs and delegates read
    one of its rows. So a column of zeros that ends in NaN is looked up beside it.
    """

    def __init__(self, count: int) -> None:
        self._count, self._zeros = count, Table(append_guard(np.zeros((count, 1), "float32")))

    def range(self, table: Any, length: Any, start: Any = None) -> Any:
        """Returns the rows at `start`, an integer scalar or None for 0, and on: `(length, columns)`."""
        return rows_from(table, length, start, self._count, partial(self.at, table))

    def at(self, table: Any, positions: Any) -> Any:
        """Returns the rows at integer positions: `(*positions.shape, columns)`."""
        rows = among(positions, self._count)
        with failing_out_of_reach(0, self._count):
            taken = take(table, rows)
        if is_eager() or keras.config.backend() == "jax":
            return taken  # positions that can be seen were refused, and JAX fills with NaN
        return taken + ops.cast(take(self._zeros.tensor(), rows), taken.dtype)


class RowsOfPositions:
    """A row of numbers for each position from 0 on.

    Args:
        guarded: `(length + 1, columns)`. The last row is NaN, see `append_guard`.
    """

    def __init__(self, guarded: npt.NDArray[Any]) -> None:
        self._length = len(guarded) - 1
        self._table, self._zeros = Table(guarded), Table(np.zeros(self._length, "int32"))

    def range(self, length: Any, start: Any = None) -> Any:
        """Returns the rows at `start`, an integer scalar or None for 0, and on: `(length, columns)`."""
        return rows_from(self._table.tensor(), length, start, self._length, self.at)

    def at(self, positions: Any) -> Any:
        """Returns the rows at integer positions: `(*positions.shape, columns)`."""
        return take(self._table.tensor(), row_or_guard(among(positions, self._length), self._zeros, 0, self._length))


class TabulatedEncoding(RowsOfPositions):
    """The encoding of one axis of at most `max_length` positions, counted from `start_index`: rows of one table."""

    def __init__(
        self, timescales: Float64Array, channels: int, layout: Layout, start_index: int, dtype: str, max_length: int
    ) -> None:
        guarded = np.full((max_length + 1, channels), np.nan, dtype)
        for first in range(0, max_length, _AT_ONCE):  # float64 sines of the whole table take four times its memory
            rows = guarded[first : min(first + _AT_ONCE, max_length)]
            positions = start_index + np.arange(first, first + len(rows))
            rows[...] = assemble(*sines_and_cosines(positions, timescales), channels, layout)
        super().__init__(guarded)

    def rotations(self, length: Any, start: Any, positions: Any) -> Any:
        """Returns rows of sines and cosines at positions, or where there are none at `start`, 0 if it is None, and on.

        A look-up of each row takes a graph fewer operators than a slice. It takes as long if the rows rotate heads,
        since the rotation takes longer than either.
        """
        if positions is None and start is None and known_length(length) is None:
            positions = count_up(length)
        return self.range(length, start) if positions is None else self.at(positions)
