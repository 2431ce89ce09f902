"""Identifies the convention of a table of encodings."""

import math
from dataclasses import replace

import numpy.typing as npt

from keras_pe.conventions.catalogue import CONVENTIONS
from keras_pe.conventions.identification.encoding_table import CheckedTable
from keras_pe.conventions.identification.fit import Fit
from keras_pe.conventions.identification.image_tables import image_matches
from keras_pe.conventions.identification.match import Grid, Match
from keras_pe.conventions.identification.signal_search import DISTANCES, TOKENS, Ways, sequence_fits
from keras_pe.conventions.identification.signals import USUAL, Signal


def identify(table: npt.ArrayLike) -> tuple[Match, ...]:
    """Returns the conventions that explain a table of encodings: one match, several indistinguishable ones, or none.

    The rows must be consecutive positions, starting anywhere from 0 to 2**17 - 1. They may also be distances between
    tokens, which may be negative and in descending order (`Match.step`). Rows may be zero, such as fairseq's padding
    row. Columns may be scaled by one positive factor and stored in float32, float16, bfloat16 or int8 steps. Integers
    may have any zero point. A table is not a convention's if neither this storage nor the float32 formula explains a
    difference.

    The first rows determine the convention. All other rows are then compared with it.

    A table may also belong to an image, row after row or column after column, after rows of zeros for class tokens
    (`Match.grid`). If positions are counted, the image may be cut after some of them. An image is identified only with
    its convention's default longest timescale.

    Args:
        table: `(length, channels)`, `(1, length, channels)` or `(length, 1, channels)`, with at least 4 rows and 2
            channels.

    Returns:
        The matches, the closest first. The tuple is empty if no convention explains the table with any longest
        timescale. A table may be too small to distinguish conventions, such as a single sine and cosine. The result is
        then one match without names.

    Raises:
        ValueError: If the shape of the table is not supported, or fewer than 4 rows are not zero.
        TypeError: If the values are not real numbers.

    >>> from keras_pe import timing_signal
    >>> [match] = identify(timing_signal(range(3, 20), 16, layout="interleaved", endpoint=False))
    >>> match.conventions
    ('paper', 'keras-hub', 'positional-encodings', 'd2l')
    >>> match.start_index
    3
    """
    checked = CheckedTable(table)
    matches = _sequence_matches(checked, TOKENS)
    tokens = checked.class_tokens
    if not matches and tokens:
        after = _sequence_matches(checked.without_class_tokens(), TOKENS)
        matches = tuple(replace(each, grid=Grid((len(checked) - tokens,), tokens)) for each in after)
    return matches or image_matches(checked) or _sequence_matches(checked, DISTANCES)


def _sequence_matches(checked: CheckedTable, ways: Ways) -> tuple[Match, ...]:
    """Returns one match for each signal that explains a table of consecutive positions, the closest first."""
    fits, enough = sequence_fits(checked, ways)
    signals: dict[tuple[Signal, int], list[Fit]] = {}
    for each in sorted(fits, key=lambda each: each.misfit):
        signals.setdefault((each.signal, each.step), []).append(each)

    # Two schedules can give equal sequences with two longest timescales. The usual timescale comes first, then the one
    # with the fewest digits, which a person is most likely to choose.
    def rank(same: list[Fit]) -> tuple[bool, int, float]:
        longest = same[0].signal.max_timescale
        return longest != USUAL, len(f"{longest:.10g}".rstrip("0")), abs(math.log(longest / USUAL))

    matches = [_match(same) for same in sorted(signals.values(), key=rank)]
    if enough:
        return tuple(matches)
    undecided = ("conventions", "timescales_of", "layout", "max_timescale")
    return tuple(
        replace(each, conventions=(), timescales_of=(), max_timescale=None, undecided=(*undecided, *each.undecided))
        for each in matches[:1]
    )


def _match(same: list[Fit]) -> Match:
    """Returns one match for the fits of one signal at several first positions."""
    first, *others = sorted(same, key=lambda each: (abs(each.start), -each.start))
    return replace(
        first.match(),
        conventions=tuple(sorted(first.signal.names, key=lambda name: CONVENTIONS[name].start_index != first.start)),
        other_starts=tuple(each.start for each in others),
        undecided=("start_index",) if others else (),
    )
