"""Opens what a user calls their data: a path, arrays, or a data set of a library."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_pe.export.parity.dataset.sources.source import DataError, Source

_KINDS = (".npy", ".npz", ".parquet", ".tfrecord")


def open_source(data: Any) -> Source:
    """Returns the source that `data` stands for.

    Args:
        data: A path of an `.npz`, `.npy`, `.parquet` or `.tfrecord` file, or of a folder with files of one of the
            latter three kinds; a mapping of names to arrays; a `tf.data.Dataset`, a `keras.utils.PyDataset`, or a
            `datasets.Dataset` of Hugging Face.

    Raises:
        FileNotFoundError: If there is nothing at the path.
        DataError: If it cannot be read.
        TypeError: If it is none of these.
    """
    if isinstance(data, str | os.PathLike):
        return _open_path(Path(data))
    if isinstance(data, Mapping):
        from keras_pe.export.parity.dataset.sources.arrays import InMemory

        return InMemory(data)
    from keras_pe.export.parity.dataset.sources.libraries import open_library

    source = open_library(data)
    if source is None:
        raise TypeError(
            "`data` must be a path, a mapping of names to arrays, a tf.data.Dataset, a keras.utils.PyDataset or a "
            f"datasets.Dataset. Received: {type(data).__name__}."
        )
    return source


def _open_path(path: Path) -> Source:
    from keras_pe.export.parity.dataset.sources import arrays

    if not path.exists():
        raise FileNotFoundError(f"There is no data at {str(path)!r}.")
    kind, files = _files(path)
    if kind == ".npz":
        from keras_pe.export.parity.dataset.sources.npz import open_npz

        return open_npz(path)
    if kind == ".npy":
        return arrays.open_npy_folder(path, files) if path.is_dir() else arrays.open_npy(path)
    if kind == ".parquet":
        from keras_pe.export.parity.dataset.sources.parquet import ParquetFiles

        return ParquetFiles(str(path), files)
    from keras_pe.export.parity.dataset.sources.tfrecord import TFRecordFiles

    return TFRecordFiles(str(path), files)


def _files(path: Path) -> tuple[str, list[Path]]:
    """Returns the kind of a file, or of those in a folder, and the files in order."""
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.suffix in _KINDS)
    kinds = {file.suffix for file in files}
    if path.is_dir() and ".npz" in kinds:
        raise DataError(f"A folder of data must hold .npy, .parquet or .tfrecord files. Received: {path} with .npz.")
    if len(kinds) > 1:
        raise DataError(f"A folder must hold data of one kind. Received: {path} with {', '.join(sorted(kinds))}.")
    if not kinds or not kinds <= set(_KINDS):
        what = f"{path} without any" if path.is_dir() else str(path)
        raise DataError(f"Data must be in files that end in {', '.join(_KINDS)}. Received: {what}.")
    return kinds.pop(), files
