"""The header of an array in NumPy's format: what it says is checked before a value is read."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from keras_pe.export.parity.data.source import DataError
from keras_pe.export.results import Array


@dataclass(frozen=True)
class StoredArray:
    """One array in a file, rows first.

    Attributes:
        path: The file.
        offset: Where its values begin.
        shape: Its shape.
        dtype: Its type, as NumPy writes it.
        order: Whether its rows or its columns stand together.
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    order: Literal["C", "F"]

    def map(self) -> Array:
        """Returns the array without reading it."""
        return np.memmap(self.path, np.dtype(self.dtype), "r", self.offset, self.shape, self.order)


def read_header(path: Path, start: int) -> StoredArray:
    """Returns the array that begins at a place in a file.

    Raises:
        DataError: If it is none, is not whole, or holds what is neither numbers nor texts.
    """
    with path.open("rb") as file:
        file.seek(start)
        shape, dtype, order = parse_header(file, str(path))
        array = StoredArray(str(path), file.tell(), shape, dtype.str, order)
    check_size(array, path.stat().st_size)
    return array


def parse_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], Any, Literal["C", "F"]]:
    """Returns the shape, the type and the order ("C" or "F") of the array that a stream goes on with.

    Raises:
        DataError: If it is none, or holds what is neither numbers nor texts.
    """
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
    except (ValueError, EOFError) as error:
        raise DataError(f"{name} must hold a NumPy array. Received: {error}.") from error
    if dtype.hasobject:
        raise DataError(f"{name} must hold numbers or texts. Received: pickled objects, which are not loaded.")
    if dtype.names:
        raise DataError(f"{name} must hold numbers or texts. Received: records of {', '.join(dtype.names)}.")
    return shape, dtype, "F" if is_fortran else "C"


def check_size(array: StoredArray, end: int) -> None:
    """Refuses an array whose values would go beyond a place in its file."""
    missing = array.offset + int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize - end
    if missing > 0:
        raise DataError(f"{array.path} must be whole. Received: a file that ends {missing:,} bytes too early.")
