"""The connector to data sets of batches that `keras.Model.fit` takes: tf.data and PyDataset."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export import DataError, DataSource


def open_tf_dataset(data: Any) -> DataSource | None:
    """Opens a `tf.data.Dataset`, None for any other object of TensorFlow.

    Raises:
        DataError: If it has no end.
    """
    import tensorflow as tf

    if not isinstance(data, tf.data.Dataset):
        return None
    if int(data.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise DataError("A tf.data.Dataset must come to an end. Received: one that repeats for ever; use take().")

    def read(locator: Any, most: int, columns: Sequence[str]) -> Iterator[Any]:
        for batch in data:
            yield tf.nest.map_structure(_with_ragged_rows, _inputs_of(batch))

    return DataSource("tf.data.Dataset", _names(_inputs_of(data.element_spec)), read)


def open_py_dataset(data: Any) -> DataSource | None:
    """Opens a `keras.utils.PyDataset`, None for any other object of Keras.

    Raises:
        DataError: If it has no batch or no end.
    """
    import keras

    if not isinstance(data, keras.utils.PyDataset):
        return None
    if not data.num_batches:
        raise DataError("A PyDataset must have at least one batch and come to an end. Received: one that does not.")

    def read(locator: Any, most: int, columns: Sequence[str]) -> Iterator[Any]:
        for index in range(data.num_batches):
            yield _inputs_of(data[index])

    return DataSource(type(data).__name__, _names(_inputs_of(data[0])), read)


def _inputs_of(batch: Any) -> Any:
    """Returns the inputs of a batch: of a tuple, which is (inputs, targets, ...), the first."""
    return batch[0] if isinstance(batch, tuple) and batch else batch


def _names(inputs: Any) -> tuple[str, ...]:
    """Returns the names of a batch's parts; parts without names are counted."""
    if isinstance(inputs, Mapping):
        return tuple(str(name) for name in inputs)
    return tuple(f"part {i}" for i in range(len(inputs))) if isinstance(inputs, list | tuple) else ("inputs",)


def _with_ragged_rows(tensor: Any) -> Any:
    """Returns the rows of a ragged tensor as arrays, and other tensors as they are."""
    return [np.asarray(row) for row in tensor] if hasattr(tensor, "row_splits") else tensor
