"""Borders of an input: the values at which a model's decision changes, and arrays that contain all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_pe.export.results import Array


@dataclass(frozen=True)
class Borders:
    """Values of an input at which a model's decision changes.

    Attributes:
        beside: Values on both sides of each border, far enough that rounding cannot move them across.
        exact: Borders that the model compares exact values with, so that every runtime decides alike.
        low: The least value that the model's casts can represent; None without such an end.
        high: The first value above `low` that the casts cannot represent; None without such an end.
    """

    beside: tuple[float, ...] = ()
    exact: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None

    def within(self, low: float | None, high: float | None) -> "Borders":
        """Returns the borders from `low` to below `high`; None means no limit."""
        least, end = -np.inf if low is None else low, np.inf if high is None else high
        beside, exact = (tuple(v for v in values if least <= v < end) for values in (self.beside, self.exact))
        return replace(self, beside=beside, exact=exact)

    def fill_arrays(self, like: Array) -> Iterator[Array]:
        """Yields arrays with the shape and type of another, in which every value occurs at least once."""
        for values in filter(None, (self.beside, self.exact)):
            for turn in range(-(-2 * len(values) // max(1, len(like) if like.ndim else 1))):
                yield dealt(values, like.shape, turn).astype(like.dtype)


def dealt(values: Sequence[float] | Sequence[str], shape: tuple[int, ...], turn: int = 0) -> Array:
    """Returns an array in which every second row has one of the values only, and each other row has several.

    Args:
        values: At least one.
        shape: Shape of the array, the rows first.
        turn: Number of earlier arrays of this shape. Together the arrays go through all values.
    """
    rows, size = (shape[0] if shape else 1), int(np.prod(shape[1:]))
    mixed = np.random.default_rng(0).permutation(np.array(values, _common_type(values)))
    first = (turn * rows + np.arange(rows)) // 2
    is_plain = np.arange(rows) % 2 == 0
    places = first[:, None] + np.where(is_plain[:, None], 0, len(mixed) // 2 + np.arange(size))
    found: Array = mixed[places % len(mixed)].reshape(shape)
    return found


def _common_type(values: Sequence[float] | Sequence[str]) -> type:
    if any(isinstance(value, str) for value in values):
        return object
    return int if all(value == int(value) for value in values) else float
