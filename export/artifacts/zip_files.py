"""Untrusted zip files: the claimed sizes of entries are checked before an entry is unpacked."""

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from keras_pe.display import shown_bytes

MAX_TEXT = 2**28
"""The size, in bytes, of the largest text that is read, such as the configuration of a model."""

_UNCHECKED = 2**27  # bytes that a file may unpack to at any compression ratio
_MAX_RATIO = 100  # genuine weights, texts and samples compress less; Keras has this bound too


def plausible_bytes(packed: int) -> int:
    """Returns the largest plausible size, in bytes, of content that has `packed` bytes on disk."""
    return max(_UNCHECKED, _MAX_RATIO * packed)


class ImplausibleSizeError(ValueError):
    """A file claims to unpack to far more than its size on disk."""


def check_entries(file: zipfile.ZipFile) -> None:
    """Raises ValueError if entries unpack to far more than their size on disk, or the header of an array claims more.

    Args:
        file: An open file. Only the headers of arrays are unpacked.
    """
    entries = file.infolist()
    check_ratio(sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries))
    for entry in entries:
        if entry.filename.endswith(".npy"):
            with file.open(entry) as stream:
                _check_header(stream, entry)


def read_text(file: zipfile.ZipFile, name: str) -> str:
    """Returns an entry as text.

    Raises:
        ValueError: If the text is too large to be genuine, or is not UTF-8.
        KeyError: If the file lacks the entry.
    """
    entry = file.getinfo(name)
    if entry.file_size > MAX_TEXT:
        raise ValueError(
            f"{name} must be at most {shown_bytes(MAX_TEXT)}. Received: {shown_bytes(entry.file_size)} of text"
        )
    check_ratio(entry.file_size, entry.compress_size)
    return file.read(entry).decode()


def check_array(path: Path) -> None:
    """Raises ValueError if an `.npy` file contains no array, or its header claims more values than the file has."""
    with path.open("rb") as stream:
        claimed = claimed_bytes(stream)
        left = path.stat().st_size - stream.tell()
    if claimed > left:
        raise ValueError(f"its header claims {shown_bytes(claimed)}, and {shown_bytes(left)} follow")


def claimed_bytes(stream: IO[bytes]) -> int:
    """Reads the header of an array in NumPy's format, and returns the size of its values in bytes."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return 0 if dtype.hasobject else math.prod(shape) * dtype.itemsize


def _check_header(stream: IO[bytes], entry: zipfile.ZipInfo) -> None:
    claimed = claimed_bytes(stream)
    left = entry.file_size - stream.tell()
    if claimed > left:
        raise ValueError(f"{entry.filename} claims {shown_bytes(claimed)}, and {shown_bytes(left)} follow")


def check_ratio(unpacked: int, packed: int) -> None:
    """Raises ImplausibleSizeError if the ratio of the unpacked size to the packed size is implausible."""
    if unpacked > plausible_bytes(packed):
        raise ImplausibleSizeError(
            f"it unpacks to {shown_bytes(unpacked)} from {shown_bytes(packed)}, more than {_MAX_RATIO} times. If you "
            "trust the file, unpack it and pack it without compression"
        )
