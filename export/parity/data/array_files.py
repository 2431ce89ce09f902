"""Arrays in memory, and in files that are mapped: only what is used is read."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.parity.data.columns import count_rows, to_column
from keras_pe.export.parity.data.npy import StoredArray, read_header
from keras_pe.export.parity.data.shards import file_identity
from keras_pe.export.parity.data.source import SHARD_ROWS, Column, DataPart, DataSource, Rows


def open_mapping(arrays: Mapping[str, Any], name: str = "arrays in memory") -> DataSource:
    """Opens a mapping of names to arrays, or to lists of arrays where the rows differ in shape."""
    found = {str(column): to_column(value, f"Column {column!r} of {name}") for column, value in arrays.items()}
    shapes = {column: rows.shape if isinstance(rows, np.ndarray) else (len(rows),) for column, rows in found.items()}
    return DataSource(name, tuple(found), partial(_all_at_once, found), rows=count_rows(name, shapes))


def _all_at_once(arrays: Mapping[str, Column], locator: Any, most: int, columns: Sequence[str]) -> Iterator[Rows]:
    yield {name: arrays[name] for name in columns}


def open_npy(name: str, files: Sequence[Path]) -> DataSource:
    """Opens `.npy` files: each is a column that is named as the file is."""
    members = {file.stem: read_header(file, 0) for file in files}
    return mapped_arrays(name, members, [file_identity(file) for file in files])


def mapped_arrays(name: str, members: Mapping[str, StoredArray], identity: Any) -> DataSource:
    """Returns the source of arrays in files that any process can map.

    Args:
        name: What the report calls it.
        members: The array of each column.
        identity: Changes with what they hold: JSON's plain values.
    """
    total = count_rows(name, {column: member.shape for column, member in members.items()})
    ranges = [(start, min(SHARD_ROWS, total - start)) for start in range(0, total, SHARD_ROWS)]
    place = Path(name).name
    parts = tuple(DataPart(rows, place, [start, rows], [identity, start, rows]) for start, rows in ranges)
    return DataSource(name, tuple(members), partial(_read_mapped, members), parts)


def _read_mapped(members: Mapping[str, StoredArray], locator: Any, most: int, columns: Sequence[str]) -> Iterator[Rows]:
    start, rows = locator
    mapped = {name: members[name].map() for name in columns}  # for this part alone: what stays mapped counts as memory
    for first in range(start, start + rows, most):
        last = min(first + most, start + rows)
        yield {name: np.array(array[first:last]) for name, array in mapped.items()}
