"""Joins the rows of a data set to sequences: consecutive rows with one value in a column are one sequence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import numpy as np

from keras_pe.display import did_you_mean
from keras_pe.export.parity.data.pieces import cut, join, neighbors_within, regroup, rows_between
from keras_pe.export.parity.data.shards import Shard, fingerprint, read_rows, shards_of, without_parts
from keras_pe.export.parity.data.source import SHARD_ROWS, Column, DataError, DataPart, DataSource, Rows
from keras_pe.export.results import Array


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
    shards = [*shards_of(source)]
    steps = (name for shard in shards for rows in read_rows(source, [column], shard) for name in _names(rows[column]))
    runs = [(name, len([*run])) for name, run in groupby(steps)]
    _check_consecutive([name for name, _ in runs], column, source.name)
    parts, first = list[DataPart](), 0
    for group in neighbors_within([length for _, length in runs], SHARD_ROWS):
        names, lengths = zip(*runs[group.start : group.stop], strict=True)
        last = first + sum(lengths)
        identity = [[part.identity for part in source.parts], first, lengths, fingerprint(names)]
        locator = [[*_segments(shards, first, last)], lengths]
        parts.append(DataPart(len(group), f"{source.name}, from row {first:,}", locator, identity))
        first = last
    return DataSource(source.name, columns, partial(_read_part, without_parts(source)), tuple(parts))


def _names(values: Column) -> Iterator[str]:
    """Yields the name of the sequence of each row."""
    return map(str, np.asarray(values).reshape(len(values), -1)[:, 0].tolist())


def _check_consecutive(names: Sequence[str], column: str, source: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise DataError(
            f"The rows of a sequence must be consecutive in {source}. Received: {column} {twice!r} in several places. "
            f"Sort the rows by {column!r}, and then by time."
        )


def _segments(shards: Iterable[Shard], first: int, last: int) -> Iterator[list[Any]]:
    """Yields each shard with rows between two rows of the data set, and these rows counted from the shard's first."""
    for shard in shards:
        begin, end = max(first - shard.start, 0), min(last - shard.start, shard.rows)
        if begin < end:
            yield [shard.start, shard.place, shard.locator, begin, end]


def _read_part(source: DataSource, locator: Any, most: int, columns: Sequence[str]) -> Iterator[Rows]:
    """Yields the sequences of a part, at most `most` at once."""
    segments, lengths = locator
    pieces = (
        rows
        for start, place, own, begin, end in segments
        for rows in rows_between(read_rows(source, columns, Shard(0, start, end - begin, place, own, "")), begin, end)
    )
    sequences = map(_join_steps, regroup(pieces, lengths))
    while found := [*islice(sequences, most)]:
        yield {key: [each[key] for each in found] for key in columns}


def _read_here(source: DataSource, column: str, locator: Any, most: int, columns: Sequence[str]) -> Iterator[Rows]:
    """Yields the sequences of a source without parts, one at a time."""
    names = list[str]()
    for name, run in groupby(_runs(read_rows(source, [*columns, column]), column), itemgetter(0)):
        names.append(name)
        sequence = _join_steps([rows for _, rows in run])
        yield {key: [sequence[key]] for key in columns}
    _check_consecutive(names, column, source.name)


def _runs(pieces: Iterable[Rows], column: str) -> Iterator[tuple[str, Rows]]:
    """Yields the rows of each piece, divided by the names of their sequences."""
    for rows in pieces:
        start = 0
        for name, run in groupby(_names(rows[column])):
            stop = start + len([*run])
            yield name, cut(rows, start, stop)
            start = stop


def _join_steps(pieces: Sequence[Rows]) -> dict[str, Array]:
    """Returns the steps of a sequence in pieces as one array for each column; rows of several steps are joined."""
    joined = join(pieces).items()
    return {key: column if isinstance(column, np.ndarray) else np.concatenate(column) for key, column in joined}
