"""Divides and joins rows that come in pieces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.parity.data.source import Column, Rows


def count(rows: Mapping[str, Column]) -> int:
    """Returns the number of rows."""
    return len(next(iter(rows.values())))


def cut(rows: Mapping[str, Any], start: int, stop: int | None = None) -> dict[str, Any]:
    """Returns the rows between two indices."""
    return {name: column[start:stop] for name, column in rows.items()}


def divide(rows: Mapping[str, Any], most: int) -> Iterator[dict[str, Any]]:
    """Yields rows in pieces of at most `most` rows."""
    return (cut(rows, start, start + most) for start in range(0, count(rows), most))


def rows_between(pieces: Iterable[Mapping[str, Any]], first: int, last: int) -> Iterator[dict[str, Any]]:
    """Yields the rows between two numbers, counted from the first row of the first piece."""
    row = 0
    for piece in pieces:
        start, stop = max(first - row, 0), min(last - row, count(piece))
        if start < stop:
            yield cut(piece, start, stop)
        row += count(piece)
        if row >= last:
            return


def regroup(pieces: Iterable[Rows], sizes: Iterable[int]) -> Iterator[list[Rows]]:
    """Yields groups of these sizes, each as parts of the pieces. The last group may be smaller than its size."""
    wanted = iter(sizes)
    parts, missing = list[Rows](), next(wanted, 0)
    for piece in pieces:
        start = 0
        while missing and start + missing <= count(piece):
            yield [*parts, cut(piece, start, start + missing)]
            parts, start, missing = [], start + missing, next(wanted, 0)
        if missing and start < count(piece):
            parts.append(cut(piece, start))
            missing -= count(piece) - start
    if parts:
        yield parts


def join(pieces: Sequence[Rows]) -> Rows:
    """Returns the rows of all pieces."""
    return {name: _concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _concatenate(columns: Sequence[Column]) -> Column:
    if len(columns) == 1:
        return columns[0]
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(columns) and len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    return [row for column in columns for row in column]


def neighbors_within(counts: Sequence[int], most: int) -> Iterator[range]:
    """Yields the indices of neighbors whose counts add up to at most `most`, or of one larger count alone."""
    start = total = 0
    for place, each in enumerate(counts):
        if start < place and total + each > most:
            yield range(start, place)
            start, total = place, 0
        total += each
    if total:
        yield range(start, len(counts))
