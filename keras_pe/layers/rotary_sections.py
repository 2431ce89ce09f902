"""The axis of positions by which each pair of a rotary layer turns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.base import check_count


class Sections(NamedTuple):
    """The sections of the pairs, as in `RotaryPositionEncoding`."""

    counts: Sequence[int] | None
    axis_of_pair: Sequence[int] | None
    interleaved: bool
    split: bool

    def check(self, sequence_axis: Sequence[int]) -> "Sections":
        """Returns the sections as tuples, or raises if the arguments of the layer contradict each other."""
        counts = None if self.counts is None else check_sections(self.counts)
        axis_of_pair = None if self.axis_of_pair is None else check_axis_of_pair(self.axis_of_pair)
        if axis_of_pair is not None:
            given, counts = counts, tuple(map(len, pairs_of_axes(axis_of_pair)))
            if self.interleaved or given not in (None, counts):
                raise ArgValueError(
                    "sections",
                    f"must be None or {list(counts)} with `axis_of_pair`, and `interleave_sections` must be False. "
                    f"Received: sections={given}, interleave_sections={self.interleaved}.",
                )
        if self.split and (self.interleaved or axis_of_pair is not None):
            raise ArgValueError(
                "split_sections",
                f"must be False with `interleave_sections` or `axis_of_pair`. Received: split_sections={self.split}.",
            )
        if counts and len(sequence_axis) not in (1, len(counts)):
            raise ArgValueError(
                "sections",
                "must have one number for each axis of `sequence_axis`. "
                f"Received: sections={counts}, sequence_axis={sequence_axis}.",
            )
        return Sections(counts, axis_of_pair, self.interleaved, self.split)

    def divide(self, rotated: int, axes: int) -> tuple[list[npt.NDArray[np.intp]], Sequence[int]]:
        """Returns the pairs of each axis, and the number of pairs of each block of channels that has the layout."""
        counts = self.counts or (rotated // (2 * axes),) * axes
        if 2 * sum(counts) != rotated:
            raise ArgValueError(
                "sections", f"must have the sum {rotated // 2}, the number of rotated pairs. Received: {list(counts)}."
            )
        if self.axis_of_pair is not None:
            pairs = pairs_of_axes(self.axis_of_pair)
        else:
            pairs = pairs_of_sections(counts, interleaved=self.interleaved)
        return pairs, counts if self.split else (sum(counts),)


def check_sections(sections: Any) -> tuple[int, ...]:
    """Returns the pairs of each axis that a layer is configured with, or raises."""
    if isinstance(sections, str) or not isinstance(sections, Sequence) or not sections:
        raise ArgTypeError(
            "sections", f"must be a list of one number for each axis of positions. Received: {sections=}."
        )
    return tuple(check_count("sections", each) for each in sections)


def check_axis_of_pair(axis_of_pair: Any) -> tuple[int, ...]:
    """Returns the axis of positions of each pair that a layer is configured with, or raises."""
    if isinstance(axis_of_pair, str) or not isinstance(axis_of_pair, Sequence) or not axis_of_pair:
        raise ArgTypeError("axis_of_pair", f"must be a list of one axis for each pair. Received: {axis_of_pair=}.")
    axes = tuple(check_count("axis_of_pair", each, 0) for each in axis_of_pair)
    if set(axes) != set(range(max(axes) + 1)):
        raise ArgValueError(
            "axis_of_pair", f"must name each axis from 0 to the largest. Received: axis_of_pair={list(axes)}."
        )
    return axes


def pairs_of_axes(axis_of_pair: Sequence[int]) -> list[npt.NDArray[np.intp]]:
    """Returns which pairs turn by the positions of each axis."""
    return [np.flatnonzero(np.equal(axis_of_pair, axis)) for axis in range(max(axis_of_pair) + 1)]


def pairs_of_sections(sections: Sequence[int], *, interleaved: bool) -> list[npt.NDArray[np.intp]]:
    """Returns which pairs turn by the positions of each axis, side by side or, as far as they go, in turns.

    In turns the pair `i` belongs to axis `i % axes` while that has pairs left, and after that to the first.
    """
    pairs = np.arange(sum(sections))
    if not interleaved:
        return np.split(pairs, np.cumsum(sections)[:-1])
    owners = np.zeros(len(pairs), np.intp)
    for axis, count in enumerate(sections[1:], start=1):
        owners[axis : count * len(sections) : len(sections)] = axis
    found = [np.flatnonzero(owners == axis) for axis in range(len(sections))]
    if [len(each) for each in found] != list(sections):
        raise ArgValueError(
            "sections",
            "must give the first axis the most pairs if sections are interleaved. "
            f"Received: sections={list(sections)}.",
        )
    return found
