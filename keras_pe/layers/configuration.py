"""Checks of what the position layers are configured with: a start and a largest length, for all axes or for each."""

from typing import Any

from keras_pe.rotations.concrete import is_integer
from keras_pe.rotations.digits import LIMIT

PerAxis = int | tuple[int, ...]


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Returns a count that a layer is configured with, or raises unless it is a whole number of at least `least`."""
    if not is_integer(value) or value < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}. Received: {name}={value!r}.")
    return int(value)


def check_start_index(value: Any) -> PerAxis:
    """Returns a configured start as an int, or a tuple of one per axis."""
    starts = value if isinstance(value, (list, tuple)) else [value]
    for start in starts:
        if not is_integer(start):
            raise TypeError(f"`start_index` must be an integer, or one per axis. Received: start_index={value!r}.")
        if not -LIMIT <= start < LIMIT:
            raise ValueError(
                f"`start_index` must be from {-LIMIT:,} to {LIMIT - 1:,}, where the encoding is exact. "
                f"Received: start_index={value!r}."
            )
    return _int_or_tuple(value, "start_index")


def check_max_length(value: Any) -> PerAxis | None:
    """Returns a configured maximal length as an int, or a tuple of one per axis, or None."""
    if value is None:
        return None
    lengths = value if isinstance(value, (list, tuple)) else [value]
    for length in lengths:
        if not is_integer(length):
            raise TypeError(
                f"`max_length` must be an integer, or one per axis, or None. Received: max_length={value!r}."
            )
        if length < 1:
            raise ValueError(f"`max_length` must be at least 1. Received: max_length={value!r}.")
    return _int_or_tuple(value, "max_length")


def plain(value: Any) -> Any:
    """Returns a tuple as the list that a configuration file holds, anything else as it is."""
    return list(value) if isinstance(value, tuple) else value


def _int_or_tuple(value: Any, name: str) -> PerAxis:
    if not isinstance(value, (list, tuple)):
        return int(value)
    if not value:
        raise ValueError(f"`{name}` must have one value for each positional axis. Received: {name}={value!r}.")
    return tuple(int(each) for each in value)
