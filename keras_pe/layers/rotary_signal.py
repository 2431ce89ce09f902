"""The sines and cosines that a rotary layer turns by: each section's own, under the scaling that a text asks for."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.layers.axes import Axis, axis_encoding
from keras_pe.layers.base import check_count
from keras_pe.layers.call_arguments import Positions
from keras_pe.layers.head_axes import HeadAxes
from keras_pe.rotations.composed import Columns, Rotation, apart, of_each
from keras_pe.rotations.lookup import RowsOfPositions
from keras_pe.rotations.pairs import of_channels
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import RotaryLayout
from keras_pe.signal.rope_scalings import RopeScaling, rope_timescales

_LARGEST = {"float16": 10.0, "bfloat16": 80.0, "float32": 80.0, "float64": 80.0}  # logarithms: range, and room for sums

OfAxis = tuple[Any, Positions | None]
"""The length and the positions of an axis."""


def check_sections(sections: Any) -> tuple[int, ...]:
    """Returns the pairs of each axis that a layer is configured with, or raises."""
    if isinstance(sections, str) or not isinstance(sections, Sequence) or not sections:
        raise TypeError(f"`sections` must be a list of one number for each axis of positions. Received: {sections=}.")
    return tuple(check_count("sections", each) for each in sections)


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
        raise ValueError(
            "`sections` must leave the first axis the most pairs where they are interleaved. "
            f"Received: sections={list(sections)}."
        )
    return found


class Rates(NamedTuple):
    """How fast pairs turn: a base, and how it is stretched to longer texts, as `RotaryPositionEncoding` is told."""

    base: float
    scaling: dict[str, Any] | None

    def of(self, channels: int, **parameters: Any) -> RopeScaling:
        """Returns the scaling of so many channels, with further parameters."""
        kind = {"rope_type": "default", **(self.scaling or {}), **parameters}
        return rope_timescales(channels=channels, rope_theta=self.base, **kind)

    def alternatives(self) -> list[dict[str, Any]]:
        """Returns the parameters to add: of short texts and of long ones where a call decides by its positions."""
        scaling = self.scaling or {}
        if scaling.get("rope_type") != "longrope" or "length" in scaling:
            return [{}]
        original = scaling.get("original_max_position_embeddings", 1)
        return [{"length": original}, {"length": original + 1}]

    def of_pairs(self, pairs: Sequence[npt.NDArray[np.intp]], *, shared: bool) -> list[list[Float64Array]]:
        """Returns the timescales of the pairs of each axis, those of each alternative.

        Args:
            pairs: Of each axis.
            shared: Whether the axes share one sequence of rates.
        """
        whole = 2 * sum(map(len, pairs))
        return [
            [
                self.of(whole, **each).timescales[some] if shared else self.of(2 * len(some), **each).timescales
                for each in self.alternatives()
            ]
            for some in pairs
        ]


class RotarySignal:
    """Sines and cosines for the positions of each axis, under one scaling or under that which the positions ask for.

    There is one for each channel, as `turn_pairs` takes them: of a single axis by its tables, where the first channel
    of a pair has its timescale with a minus, of several once the pairs of all of them stand side by side.
    """

    def __init__(
        self,
        rates: Rates,
        pairs: Sequence[npt.NDArray[np.intp]],
        *,
        shared_rates: bool,
        bounds: Sequence[int | None],
        layout: RotaryLayout,
        dtype: str,
    ) -> None:
        """Makes the encodings.

        Args:
            rates: Of all pairs.
            pairs: Those of each axis.
            shared_rates: Whether the axes share one sequence of rates.
            bounds: The length of each axis, or None.
            layout: Which channels are a pair.
            dtype: Of the sines and cosines.
        """
        self._layout = layout
        self._has_one_axis = len(pairs) == 1
        self._encodings = [
            [axis_encoding(self._axis(scales, bound, dtype)) for scales in of_each]
            for of_each, bound in zip(rates.of_pairs(pairs, shared=shared_rates), bounds, strict=True)
        ]
        first = rates.alternatives()[0]
        self._factor = rates.of(2 * sum(map(len, pairs)), **first).attention_factor
        order = np.argsort(np.concatenate(pairs))
        self._order = None if np.array_equal(order, np.arange(len(order))) else order.astype("int32")
        self._longest_short = first.get("length")

    def at(self, given: Sequence[OfAxis], head: HeadAxes, shape: tuple[Any, ...]) -> Rotation:
        """Returns the sines and the cosines of all turned channels, as queries of this shape take them.

        Args:
            given: Length and positions of each axis.
            head: The axes of the queries.
            shape: Of the queries.
        """
        rotations = [self._of_axis(axis, *each) for axis, each in enumerate(given)]
        if self._has_one_axis:
            return apart(of_each(lambda columns: self._scaled(head.laid_along([columns], shape)), *rotations))
        parts = zip(*map(apart, rotations), strict=True)
        sin, cos = (self._scaled(self._in_order(head.laid_along(list(each), shape))) for each in parts)
        return of_channels(-sin, sin, self._layout, ops), of_channels(cos, cos, self._layout, ops)

    def _axis(self, scales: Float64Array, bound: int | None, dtype: str) -> Axis:
        columns = of_channels(-scales, scales, self._layout) if self._has_one_axis else scales
        return Axis(tuple(columns.tolist()), 2 * len(columns), "concatenated", 0, bound, dtype)

    def _of_axis(self, axis: int, length: Any, positions: Positions | None) -> Columns:
        """Returns the rotations of an axis, under the scaling that its positions ask for."""
        short, *long = (each.rotations(length, positions) for each in self._encodings[axis])
        if not long:
            return short
        is_long = _last(length, positions) >= self._longest_short
        return of_each(partial(ops.where, is_long), *long, short)

    def _in_order(self, columns: Any) -> Any:
        """Returns the sines, or the cosines, as the pairs stand."""
        return columns if self._order is None else ops.take(columns, self._order, axis=-1)

    def _scaled(self, columns: Any) -> Any:
        """Returns sines or cosines with the scaling's factor."""
        return columns if self._factor == 1.0 else columns * self._factor


class Growth(RowsOfPositions):
    """What queries are multiplied by, and keys divided, at each position: 1 in the middle of the longest text.

    Only the ratio of a query's and a key's counts, and float32 holds neither end of a text that is too long.
    """

    def __init__(self, logarithms: Float64Array, max_length: Any, compute_dtype: str, dtype: str) -> None:
        steepest = float(np.abs(logarithms).max())
        most = int(2 * _LARGEST[compute_dtype] / steepest)
        if not isinstance(max_length, int) or max_length > most:
            raise ValueError(
                f"`max_length` must be given for 'xpos', and at most {most:,}: queries grow exponentially, "
                f"and {compute_dtype} ends there. Received: {max_length=}."
            )
        offsets = np.arange(max_length) - max_length // 2
        super().__init__(np.exp(np.multiply.outer(offsets, logarithms)).astype(dtype))

    def of_queries_and_keys(
        self, turns: Rotation, given: OfAxis, head: HeadAxes, shape: tuple[Any, ...]
    ) -> list[list[Any]]:
        """Returns the sines and cosines of queries, and those of keys; the arguments are those of `RotarySignal.at`."""
        factors = head.laid_along([self._factors(*given)], shape)
        return [[each * factors for each in turns], [each / factors for each in turns]]

    def _factors(self, length: Any, positions: Positions | None) -> Any:
        """Returns the factor of each turned channel, `(length, width)` or `(batch, length, width)`."""
        if positions is None or positions.whole is None:
            return self.range(length, None if positions is None else positions.start)
        if positions.fraction is not None:
            raise TypeError("Positions must be integers for 'xpos'. Received: floats.")
        return self.at(positions.whole)


def _last(length: Any, positions: Positions | None) -> Any:
    """Returns the last position, of each example where they have their own."""
    if keras.config.backend() == "jax":
        length = ops.cast(length, "int32")  # JAX compares no size that is not known, but the number that it will be
    if positions is None:
        return length - 1
    if positions.whole is None:
        return positions.start + (length - 1)
    return ops.max(positions.whole, axis=-1, keepdims=True)[..., np.newaxis]
