"""Coordinates of an axis in parts of its size."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np

from keras_pe.argument_errors import ArgValueError

Place = Literal["edges", "centers", "starts", "ends"]

# Offsets of the index, and of the size, before the division.
_SHIFTS: dict[str, tuple[float, int]] = {"edges": (0.0, -1), "centers": (0.5, 0), "starts": (0.0, 0), "ends": (1.0, 0)}


@dataclass(frozen=True)
class Coordinates:
    """Positions that depend on the size of an axis, from `low` to `high`, instead of 0, 1, 2, ...

    Attributes:
        low: Start of the axis.
        high: End of the axis.
        at: Coordinate of index `k` of `size`: "centers" of pixels at `(k + 0.5) / size`, their "starts" at `k / size`,
            their "ends" at `(k + 1) / size`; "edges" puts the first index at `low` and the last at `high`, as
            `numpy.linspace`.
        epsilon: Number added to the size, with which some codebases avoid a division by zero.

    Raises:
        ValueError: If `at` is unknown, a number is not finite, `low >= high`, or `epsilon < 0`.

    >>> Coordinates(0.0, 1.0).of(np.arange(4), 4).tolist()
    [0.125, 0.375, 0.625, 0.875]
    """

    low: float = 0.0
    high: float = 1.0
    at: Place = "centers"
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.at not in get_args(Place):
            raise ArgValueError(
                "at", f"must be one of {', '.join(map(repr, get_args(Place)))}. Received: at={self.at!r}."
            )
        if not (np.isfinite([self.low, self.high, self.epsilon]).all() and self.low < self.high and self.epsilon >= 0):
            raise ArgValueError("low", f"must be less than `high`, and `epsilon` at least 0. Received: {self}.")

    def of(self, index: Any, size: Any, xp: ModuleType = np) -> Any:
        """Returns the positions of places.

        Args:
            index: Index of the place, counted from 0.
            size: How many there are, a number of the dtype that is wanted.
            xp: NumPy, or `keras.ops`.
        """
        shift, more = _SHIFTS[self.at]
        parts = (index + shift) / (xp.maximum(size + more, 1) + self.epsilon)
        return parts * (self.high - self.low) + self.low
