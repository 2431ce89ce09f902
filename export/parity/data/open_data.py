"""Opens a user's data: a path, arrays, or a data set of a library with a connector."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgTypeError
from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.array_files import open_mapping
from keras_pe.export.parity.data.source import DataError, DataSource
from keras_pe.export.parity.plugins import DATA_SOURCES, entry_points_of


def open_source(data: Any) -> DataSource:
    """Returns the source of `data`.

    Args:
        data: A source, a path, a mapping of names to arrays, or an object of a package in `keras_pe.data_sources`. The
            path is a `.csv`, `.npz`, `.npy`, `.parquet`, `.arrow` or `.feather` file, or a folder with files of one
            kind other than `.npz`.

    Raises:
        FileNotFoundError: If the path does not exist.
        DataError: If the data cannot be read.
        TypeError: If the type of `data` is not supported.
    """
    if isinstance(data, DataSource):
        return data
    if isinstance(data, str | os.PathLike):
        return _open_path(Path(data))
    if isinstance(data, Mapping):
        return open_mapping(data)
    connectors = entry_points_of(DATA_SOURCES)
    for package in dict.fromkeys(kind.__module__.partition(".")[0] for kind in type(data).__mro__):
        source: DataSource | None = connectors[package].load()(data) if package in connectors else None
        if source is not None:
            return source
    raise ArgTypeError(
        "data",
        "must be a path, a mapping of names to arrays, or a data set of a package with a connector: "
        f"{', '.join(sorted(name for name in connectors if not name.startswith('.')))}. "
        f"Received: {type(data).__name__}.",
    )


def _open_path(path: Path) -> DataSource:
    """Opens a file, or a folder with files of one kind, by the suffix."""
    if not path.exists():
        raise FileNotFoundError(f"`data` must be a path that exists. Received: {path}.")
    readers = {name: entry for name, entry in entry_points_of(DATA_SOURCES).items() if name.startswith(".")}
    kinds = sorted(readers)
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.suffix in kinds)
    found = sorted({file.suffix for file in files})
    if len(found) > 1:
        raise DataError(f"`data` must be a folder with data of one kind. Received: {path} with {', '.join(found)}.")
    if not found or found[0] not in kinds:
        what = f"{path} without any" if path.is_dir() else str(path)
        raise DataError(f"`data` must be in files that end in {', '.join(kinds)}. Received: {what}.")
    (suffix,) = found
    try:
        opened: DataSource = readers[suffix].load()(str(path), files)
    except (DataError, ImportError):
        raise
    except Exception as error:  # a damaged file may raise any error
        reason = first_line(error).rpartition(": Invalid: ")[2]  # pyarrow puts up to three more sentences before it
        raise DataError(f"{path} must be readable. Received: {reason.rstrip(':')}.") from error
    return opened
