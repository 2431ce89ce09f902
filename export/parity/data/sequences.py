"""Joins the rows of a data set to sequences: consecutive rows with one value in a column are one sequence."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.display import did_you_mean
from keras_pe.export.parity.data.shards import count, fingerprint
from keras_pe.export.parity.data.source import SHARD_ROWS, Column, DataError, DataPart, DataSource, Rows, to_rows
from keras_pe.export.results import Array

_READ_ROWS = 1024

_Read = Callable[[Any, int, Sequence[str]], Iterable[Any]]


def join_sequences(source: DataSource, column: str) -> DataSource:
    """Returns a source with a row for each sequence. Every other column then has an array of all steps in each row.

    A part of the source has whole sequences only, although a sequence may go from one file to the next.

    Args:
        source: The rows, in order.
        column: The column with the name or number of the sequence.

    Raises:
        DataError: If the column is missing, or the rows of a sequence are not consecutive.
    """
    if column not in source.columns:
        raise DataError(
            f"{source.name} must have the column {column!r} of the sequences. Received: {', '.join(source.columns)}."
            f"{did_you_mean(column, source.columns)}"
        )
    columns = tuple(each for each in source.columns if each != column)
    if source.parts is None:
        return replace(source, columns=columns, read=partial(_read_here, source, column), rows=None)
    ends, names = _find_ends(source, column)
    parts, start = list[DataPart](), 0
    while start < len(ends):
        first = ends[start - 1] if start else 0
        stop = start + 1
        while stop < len(ends) and ends[stop] - first <= SHARD_ROWS:
            stop += 1
        lengths = np.diff([first, *ends[start:stop]]).tolist()
        pieces = [*_segments(source.parts, first, ends[stop - 1])]
        identity = [[part.identity for part in source.parts], first, lengths, fingerprint(names[start:stop])]
        place = f"{source.name}, from row {first:,}"
        locator = [[[part.locator, *rows] for part, *rows in pieces], lengths]
        parts.append(DataPart(len(lengths), place, locator, identity))
        start = stop
    return DataSource(source.name, columns, partial(_read_part, source.read, source.name), tuple(parts))


def _find_ends(source: DataSource, column: str) -> tuple[list[int], list[str]]:
    """Returns the row after each sequence, and the name of each sequence, by reading one column."""
    ends, names, row = list[int](), list[str](), 0
    for part in source.parts or ():
        for piece in source.read(part.locator, _READ_ROWS, [column]):
            values = to_rows(piece, [column], source.name, row)[column]
            for name, length in _runs(values):
                if names and names[-1] == name:
                    ends[-1] += length
                else:
                    names.append(name)
                    ends.append(row + length)
                row += length
    _check_consecutive(names, column, source.name)
    return ends, names


def _runs(values: Column) -> Iterator[tuple[str, int]]:
    """Yields each value with the number of times that it repeats."""
    texts = [str(value) for value in np.asarray(values).reshape(len(values), -1)[:, 0].tolist()]
    start = 0
    for stop in range(1, len(texts) + 1):
        if stop == len(texts) or texts[stop] != texts[start]:
            yield texts[start], stop - start
            start = stop


def _check_consecutive(names: Sequence[str], column: str, source: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise DataError(
            f"The rows of a sequence must be consecutive in {source}. Received: {column} {twice!r} in several places. "
            f"Sort the rows by {column!r}, and then by time."
        )


def _segments(parts: Sequence[DataPart], first: int, last: int) -> Iterator[tuple[DataPart, int, int]]:
    """Yields each part with rows between two rows of the data set, with these rows counted from the part's first."""
    start = 0
    for part in parts:
        begin, end = max(first - start, 0), min(last - start, part.rows)
        if begin < end:
            yield part, begin, end
        start += part.rows


def _read_part(read: _Read, name: str, locator: Any, most: int, columns: Sequence[str]) -> Iterator[Rows]:
    """Yields the sequences of a part, at most `most` at once."""
    segments, lengths = locator
    pieces = (
        rows
        for place, begin, end in segments
        for rows in _cut(read(place, _READ_ROWS, columns), columns, name, begin, end)
    )
    parts, size, found = list[Rows](), 0, list[dict[str, Array]]()
    wanted = iter(lengths)
    length = next(wanted, None)
    for piece in pieces:
        start, rows = 0, count(piece)
        while length is not None and size + rows - start >= length:
            stop = start + length - size
            parts.append({key: column[start:stop] for key, column in piece.items()})
            found.append(_join_steps(parts))
            parts, size, start, length = [], 0, stop, next(wanted, None)
            if len(found) == most:
                yield _join_columns(found)
                found = []
        parts.append({key: column[start:] for key, column in piece.items()})
        size += rows - start
    if found:
        yield _join_columns(found)


def _cut(pieces: Iterable[Any], columns: Sequence[str], name: str, begin: int, end: int) -> Iterator[Rows]:
    """Yields the rows of a part between two rows."""
    row = 0
    for piece in pieces:
        rows = to_rows(piece, columns, name, row)
        size = count(rows)
        first, last = max(begin - row, 0), min(end - row, size)
        if first < last:
            yield {key: column[first:last] for key, column in rows.items()}
        row += size


def _read_here(source: DataSource, column: str, locator: Any, most: int, columns: Sequence[str]) -> Iterator[Rows]:
    """Yields the sequences of a source without parts, one at a time."""
    parts, names, row = list[Rows](), list[str](), 0
    for piece in source.read(locator, _READ_ROWS, [*columns, column]):
        rows = to_rows(piece, [*columns, column], source.name, row)
        start = 0
        for name, length in _runs(rows[column]):
            if names and names[-1] != name and parts:
                yield _join_columns([_join_steps(parts)])
                parts = []
            if not names or names[-1] != name:
                names.append(name)
            parts.append({key: rows[key][start : start + length] for key in columns})
            start += length
        row += start
    if parts:
        yield _join_columns([_join_steps(parts)])
    _check_consecutive(names, column, source.name)


def _join_steps(pieces: Sequence[Rows]) -> dict[str, Array]:
    """Returns the steps of a sequence in pieces as one array for each column; rows of several steps are joined."""
    return {key: _concatenate([piece[key] for piece in pieces]) for key in pieces[0]}


def _concatenate(columns: Sequence[Column]) -> Array:
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(columns) and len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    return np.concatenate([row for column in columns for row in column])


def _join_columns(sequences: Sequence[dict[str, Array]]) -> Rows:
    return {key: [each[key] for each in sequences] for key in sequences[0]}
