"""The sines and cosines that a rotary layer turns by: each section's own, under the scaling that a text asks for."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.layers.axis_encoding import Axis, axis_encoding
from keras_pe.layers.call_arguments import Positions
from keras_pe.rotations.lookup import RowsOfPositions
from keras_pe.signal.rope_scalings import RopeScaling
from keras_pe.signal.timescales import Float64Array

_LARGEST = {"float16": 10.0, "bfloat16": 80.0, "float32": 80.0, "float64": 80.0}  # logarithms: range, and room for sums

ScalingOf = Callable[..., RopeScaling]
"""Returns the scaling of so many channels, further parameters by name."""


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


class RotarySignal:
    """Sines and cosines for the positions of each axis, under one scaling or under that which the positions ask for."""

    def __init__(
        self,
        pairs: Sequence[npt.NDArray[np.intp]],
        scaling_of: ScalingOf,
        alternatives: Sequence[dict[str, Any]],
        *,
        shared_rates: bool,
        bounds: Sequence[int | None],
        dtype: str,
        longest_short: int | None,
    ) -> None:
        """Makes the encodings.

        Args:
            pairs: Those of each axis.
            scaling_of: See above.
            alternatives: Its parameters: of short texts, and of long ones where a call decides by its positions.
            shared_rates: Whether the axes share one sequence of rates.
            bounds: The length of each axis, or None.
            dtype: Of the sines and cosines.
            longest_short: How many positions a short text has, where there are two alternatives.
        """
        channels = 2 * sum(map(len, pairs))
        self._encodings = [
            [axis_encoding(Axis(tuple(scales.tolist()), 2 * len(scales), "concatenated", 0, bound, dtype))
             for scales in of_each]
            for of_each, bound in zip(
                zip(*(_timescales(pairs, scaling_of, each, shared_rates) for each in alternatives), strict=True),
                bounds,
                strict=True,
            )
        ]  # fmt: skip
        self.factor = scaling_of(channels, **alternatives[0]).attention_factor
        order = np.argsort(np.concatenate(pairs))
        self.order = None if np.array_equal(order, np.arange(len(order))) else order.astype("int32")
        self._longest_short = longest_short

    def at(self, axis: int, length: Any, positions: Positions | None) -> Any:
        """Returns the sines, then the cosines of an axis, `(length, columns)` or `(batch, length, columns)`."""
        signals = [each.signal(length, positions) for each in self._encodings[axis]]
        if len(signals) == 1:
            return signals[0]
        return ops.where(_last(length, positions) >= self._longest_short, signals[1], signals[0])


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

    def factors(self, length: Any, positions: Positions | None) -> Any:
        """Returns the factor of each pair, `(length, pairs)` or `(batch, length, pairs)`."""
        if positions is None or positions.whole is None:
            return self.range(length, None if positions is None else positions.start)
        if positions.fraction is not None:
            raise TypeError("Positions must be integers for 'xpos'. Received: floats.")
        return self.at(positions.whole)


def _timescales(
    pairs: Sequence[npt.NDArray[np.intp]], scaling_of: ScalingOf, parameters: dict[str, Any], shared_rates: bool
) -> list[Float64Array]:
    if shared_rates:
        whole = scaling_of(2 * sum(map(len, pairs)), **parameters).timescales
        return [whole[each] for each in pairs]
    return [scaling_of(2 * len(each), **parameters).timescales for each in pairs]


def _last(length: Any, positions: Positions | None) -> Any:
    """Returns the last position, of each example where they have their own."""
    if positions is None:
        return length - 1
    if positions.whole is None:
        return positions.start + (length - 1)
    return ops.max(positions.whole, axis=-1, keepdims=True)[..., np.newaxis]
