"""The sines and cosines of a rotary layer, by section and with the scaling for long texts."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.layers.axes import Axis, axis_encoding
from keras_pe.layers.axis_positions import Positions
from keras_pe.layers.head_axes import HeadAxes
from keras_pe.rotations.composed import Columns, Rotation, map_columns, split_columns
from keras_pe.rotations.lookup import RowsOfPositions, Table, append_guard
from keras_pe.rotations.pairs import interleave_columns
from keras_pe.signal.formula import Float64Array, check_number, check_timescales
from keras_pe.signal.layouts import RotaryLayout
from keras_pe.signal.rope_scalings import RopeScaling, check_parameters, rope_timescales

_LARGEST = {"float16": 10.0, "bfloat16": 80.0, "float32": 80.0, "float64": 80.0}  # logarithms: range, and room for sums

OfAxis = tuple[Any, Positions | None]
"""The length and the positions of an axis."""


class Rates(NamedTuple):
    """Rates of the pairs: a base, and its scaling to longer texts, as in `RotaryPositionEncoding`."""

    base: float
    scaling: dict[str, Any] | None

    @classmethod
    def checked(cls, base: float, scaling: Any, timescales: Sequence[float] | None) -> "Rates":
        """Returns the rates of the arguments of a layer, or raises if they are not valid."""
        if scaling is not None and not (isinstance(scaling, Mapping) and "rope_type" in scaling):
            raise ArgValueError("scaling", f"must be a dictionary with a 'rope_type'. Received: {scaling=}.")
        if timescales is not None:
            if scaling is not None:
                raise ArgValueError("scaling", f"must be None with `timescales`. Received: {scaling=}.")
            explicit = check_timescales(timescales, may_be_infinite=True)
            scaling = {"rope_type": "explicit", "timescales": explicit.tolist()}
        rates = cls(float(check_number("base", base)), None if scaling is None else dict(scaling))
        if scaling is not None:
            check_parameters(**{**scaling, **rates.alternatives()[0]})
        return rates

    def of(self, channels: int, **parameters: Any) -> RopeScaling:
        """Returns the scaling of so many channels, with further parameters."""
        kind = {"rope_type": "default", **(self.scaling or {}), **parameters}
        return rope_timescales(channels=channels, rope_theta=self.base, **kind)

    @property
    def takes_fractions(self) -> bool:
        """Whether positions may be floats: "xpos" has a factor for each whole position."""
        return (self.scaling or {}).get("rope_type") != "xpos"

    def alternatives(self) -> list[dict[str, Any]]:
        """Returns the parameters to add: of short texts and of long ones where a call decides by its positions."""
        scaling = self.scaling or {}
        if scaling.get("rope_type") != "longrope" or "length" in scaling:
            return [{}]
        original = scaling.get("original_max_position_embeddings", 1)
        return [{"length": original}, {"length": original + 1}]

    def timescales_of_pairs(self, pairs: Sequence[npt.NDArray[np.intp]], *, shared: bool) -> list[list[Float64Array]]:
        """Returns the timescales of the pairs of each axis, those of each alternative.

        Lists of a scaling have a value for each pair, in the order in which pairs stand.

        Args:
            pairs: Pairs of each axis.
            shared: Whether the axes share one sequence of rates.
        """
        whole = [self.of(2 * sum(map(len, pairs)), **each).timescales for each in self.alternatives()]
        if shared or len(pairs) == 1:
            return [[timescales[some] for timescales in whole] for some in pairs]
        return [
            [self.of(2 * len(some), **self._lists_of(some), **each).timescales for each in self.alternatives()]
            for some in pairs
        ]

    def _lists_of(self, pairs: npt.NDArray[np.intp]) -> dict[str, list[float]]:
        """Returns the lists of the scaling, cut to the values of these pairs."""
        listed = {name: value for name, value in (self.scaling or {}).items() if np.ndim(value) == 1}
        return {name: [value[pair] for pair in pairs] for name, value in listed.items()}


class RotarySignal:
    """Sines and cosines for the positions of each axis, under one scaling or under that which the positions ask for.

    There is one for each channel, as `turn_pairs` expects. For a single axis the tables have a negative timescale for
    the first channel of a pair. For several axes the pairs of all axes are concatenated first.
    """

    def __init__(
        self,
        rates: Rates,
        pairs: Sequence[npt.NDArray[np.intp]],
        *,
        shared_rates: bool,
        direction: int,
        blocks: Sequence[int],
        bounds: Sequence[int | None],
        layout: RotaryLayout,
        dtype: str,
    ) -> None:
        """Makes the encodings.

        Args:
            rates: Rates of all pairs.
            pairs: Pairs of each axis.
            shared_rates: Whether the axes share one sequence of rates.
            direction: 1, or -1 to turn the other way round.
            blocks: Number of pairs of each block of channels that has the layout.
            bounds: The length of each axis, or None.
            layout: Layout of the pairs.
            dtype: Dtype of the sines and cosines.
        """
        self._layout, self.blocks = layout, tuple(blocks)
        self._has_one_axis = len(pairs) == 1
        self._encodings = [
            [axis_encoding(self._axis(direction * scales, bound, dtype)) for scales in timescales]
            for timescales, bound in zip(rates.timescales_of_pairs(pairs, shared=shared_rates), bounds, strict=True)
        ]
        first = rates.alternatives()[0]
        self._factor = rates.of(2 * sum(map(len, pairs)), **first).attention_factor
        order = np.argsort(np.concatenate(pairs))
        self._order = None if np.array_equal(order, np.arange(len(order))) else Table(order.astype("int32"))
        self._longest_short = first.get("length")

    def at(self, given: Sequence[OfAxis], head: HeadAxes, shape: tuple[Any, ...]) -> Rotation:
        """Returns the sines and the cosines of all turned channels, as queries of this shape take them.

        Args:
            given: Length and positions of each axis.
            head: The axes of the queries.
            shape: Shape of the queries.
        """
        is_long = None if self._longest_short is None else self._is_long(given)
        rotations = [self._rotate_axis(axis, is_long, *each) for axis, each in enumerate(given)]
        if self._has_one_axis:
            return split_columns(
                map_columns(lambda columns: self._scale(head.laid_along([columns], shape)), *rotations)
            )
        parts = zip(*map(split_columns, rotations), strict=True)
        sin, cos = (self._scale(self._in_order(head.laid_along(list(each), shape))) for each in parts)
        return self._interleave(-sin, sin), self._interleave(cos, cos)

    def _interleave(self, of_first: Any, of_second: Any) -> Any:
        """Returns the values of the first and the second channels of pairs, as the channels of each block stand."""
        if len(self.blocks) == 1:
            return interleave_columns(of_first, of_second, self._layout, ops)
        parts = [
            interleave_columns(of_first[..., end - size : end], of_second[..., end - size : end], self._layout, ops)
            for size, end in zip(self.blocks, accumulate(self.blocks), strict=True)
        ]
        return ops.concatenate(parts, axis=-1)

    def _axis(self, scales: Float64Array, bound: int | None, dtype: str) -> Axis:
        columns = interleave_columns(-scales, scales, self._layout) if self._has_one_axis else scales
        return Axis(tuple(columns.tolist()), 2 * len(columns), "concatenated", 0, bound, dtype)

    def _rotate_axis(self, axis: int, is_long: Any, length: Any, positions: Positions | None) -> Columns:
        """Returns the rotations of an axis, under the scaling of long texts where an example is one."""
        short, *long = (each.rotations(length, positions) for each in self._encodings[axis])
        return map_columns(partial(ops.where, is_long), *long, short) if long else short

    def _is_long(self, given: Sequence[OfAxis]) -> Any:
        """Returns whether the largest position of any axis is beyond the original length, for each example."""
        first, *others = (_last(*each) for each in given)
        for other in others:
            first = ops.maximum(first, other)
        return first >= self._longest_short

    def _in_order(self, columns: Any) -> Any:
        """Returns the sines, or the cosines, as the pairs stand."""
        return columns if self._order is None else ops.take(columns, self._order.tensor(), axis=-1)

    def _scale(self, columns: Any) -> Any:
        """Returns sines or cosines with the scaling's factor."""
        return columns if self._factor == 1.0 else columns * self._factor


class Growth(RowsOfPositions):
    """Factor of queries, and divisor of keys, at each position: 1 in the middle of the longest text.

    Only the ratio of a query's and a key's counts, and float32 holds neither end of a text that is too long.
    """

    def __init__(self, logarithms: Float64Array, max_length: Any, compute_dtype: str, dtype: str) -> None:
        steepest = float(np.abs(logarithms).max())
        most = int(2 * _LARGEST[compute_dtype] / steepest)
        if not isinstance(max_length, int) or max_length > most:
            raise ArgValueError(
                "max_length",
                f"must be given for 'xpos', and at most {most:,}: queries grow exponentially, "
                f"and {compute_dtype} ends there. Received: {max_length=}.",
            )
        offsets = np.arange(max_length) - max_length // 2
        super().__init__(append_guard(np.exp(np.multiply.outer(offsets, logarithms)).astype(dtype)))

    def factors(
        self, turns: Rotation, given: OfAxis, head: HeadAxes, shape: tuple[Any, ...]
    ) -> tuple[Rotation, Rotation]:
        """Returns the sines and cosines of queries, and those of keys; the arguments are those of `RotarySignal.at`."""
        factors = head.laid_along([self._factors(*given)], shape)
        sin, cos = turns
        return (sin * factors, cos * factors), (sin / factors, cos / factors)

    def _factors(self, length: Any, positions: Positions | None) -> Any:
        """Returns the factor of each turned channel, `(length, width)` or `(batch, length, width)`."""
        if positions is None or positions.whole is None:
            return self.range(length, None if positions is None else positions.start)
        return self.at(positions.whole)


def _last(length: Any, positions: Positions | None) -> Any:
    """Returns the last position, of each example where they have their own."""
    if keras.config.backend() == "jax":
        length = ops.cast(length, "int32")  # JAX compares no size that is not known, but the number that it will be
    if positions is None:
        return length - 1
    if positions.whole is None:
        return positions.start + (length - 1)
    if keras.config.backend() == "torch":
        # TorchDynamo cannot trace the look of ops.max at its result.
        return positions.whole.amax(dim=-1, keepdim=True)[..., None]
    return ops.max(positions.whole, axis=-1, keepdims=True)[..., np.newaxis]
