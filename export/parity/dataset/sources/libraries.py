"""Data sets of other libraries, recognized without importing any: of TensorFlow, of Keras and of Hugging Face."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from keras_pe.export.messages import first_line
from keras_pe.export.parity.dataset.sources.source import DataError, Rows, Source
from keras_pe.export.parity.dataset.sources.streams import Stream, to_rows

_READ_ROWS = 1024


def open_library(data: Any) -> Source | None:
    """Returns the source of a library's data set, None where it is none. A library that made it has been imported."""
    if _is_of(data, "tensorflow", "data.Dataset"):
        return _open_tensorflow(data)
    if _is_of(data, "keras", "utils.PyDataset"):
        return _open_keras(data)
    if _is_of(data, "datasets", "Dataset"):
        return _open_hugging_face(data)
    return None


def _is_of(data: Any, module: str, name: str) -> bool:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return isinstance(found, type) and isinstance(data, found)


def _open_tensorflow(data: Any) -> Source:
    """Opens a `tf.data.Dataset` of batches, as `keras.Model.fit` takes it: inputs, or (inputs, targets, ...)."""
    spec = _inputs_of(data.element_spec)
    names = _names(spec)
    count = int(data.cardinality())
    if count == -1:  # tf.data.INFINITE_CARDINALITY
        raise DataError("A tf.data.Dataset must come to an end. Received: one that repeats for ever; use take().")

    def pieces() -> Iterator[Rows]:
        try:
            for element in data:
                yield to_rows(_inputs_of(element), names)
        except DataError:
            raise
        except Exception as error:  # whatever a pipeline raises
            raise DataError(f"The tf.data.Dataset must be readable. Received: {first_line(error)}.") from error

    return Stream("tf.data.Dataset", names, None, pieces)


def _open_keras(data: Any) -> Source:
    """Opens a `keras.utils.PyDataset`, whose items are batches: inputs, or (inputs, targets, ...)."""
    if not data.num_batches:
        raise DataError("A PyDataset must have at least one batch and come to an end. Received: one that does not.")
    names = _names(_inputs_of(data[0]))

    def pieces() -> Iterator[Rows]:
        for index in range(data.num_batches):
            try:
                element = data[index]
            except Exception as error:  # whatever the user's code raises
                raise DataError(f"Batch {index} of the PyDataset must be readable. Received: {error}.") from error
            yield to_rows(_inputs_of(element), names)

    return Stream(type(data).__name__, names, None, pieces)


def _open_hugging_face(data: Any) -> Source:
    """Opens a `datasets.Dataset`: its columns by their names."""
    from keras_pe.export.parity.dataset.sources.parquet import to_column

    plain = data.with_format("arrow")

    def pieces() -> Iterator[Rows]:
        row = 0
        for table in plain.iter(_READ_ROWS):
            columns = {}
            for name in table.column_names:
                try:
                    columns[name] = to_column(table.column(name).combine_chunks(), f"Column {name!r}", row)
                except DataError:
                    if name in skipped:
                        continue
                    raise
            yield columns
            row += table.num_rows

    # A column that no model takes, such as a date or an image file, is only wrong where an input needs it.
    skipped = {name for name in data.column_names if not _is_plain(data.features[name])}
    names = [name for name in data.column_names if name not in skipped]
    return Stream("datasets.Dataset", names, len(data), pieces)


def _is_plain(feature: Any) -> bool:
    """Whether a column holds numbers, texts, or lists of them."""
    kind = type(feature).__name__
    if kind in ("List", "LargeList", "Sequence"):
        return _is_plain(feature.feature)
    return kind in ("Value", "ClassLabel", "Array2D", "Array3D", "Array4D", "Array5D")


def _inputs_of(element: Any) -> Any:
    """Returns the inputs of a batch: of a tuple, which is (inputs, targets, ...), the first."""
    return element[0] if isinstance(element, tuple) and element else element


def _names(inputs: Any) -> list[str]:
    """Returns the names of a batch's parts; parts without names are counted."""
    if isinstance(inputs, Mapping):
        return [str(name) for name in inputs]
    return [f"part {i}" for i in range(len(inputs))] if isinstance(inputs, list) else ["inputs"]
