"""A match: one explanation of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from keras_pe.display import Shown
from keras_pe.signal.coordinates import Coordinates
from keras_pe.signal.layouts import Blocks, Layout

_SHOWN_STARTS = 5


@dataclass(frozen=True)
class Grid:
    """The positions of a table's rows in an image, or in a sequence after class tokens.

    Attributes:
        shape: Sizes of the image, `(height, width)`, or of the sequence. The last row of the image may be cut.
        class_tokens: Number of rows of zeros before the image.
        flatten: "rows" if the image is flattened row by row, else "columns".
        reverse_axes: Whether the first block of columns belongs to the width.
        blocks: See `SinusoidalPositionEncoding`.
        coordinates: The coordinates of the positions; None if they are counted.
    """

    shape: tuple[int, ...]
    class_tokens: int
    flatten: Literal["rows", "columns"] = "rows"
    reverse_axes: bool = False
    blocks: Blocks = "axis"
    coordinates: Coordinates | None = None

    def layer_arguments(self) -> dict[str, Any]:
        """Returns the grid as arguments of `SinusoidalPositionEncoding`."""
        names = ("class_tokens", "flatten", "reverse_axes", "blocks", "coordinates")
        return {"grid_shape": self.shape, **{name: getattr(self, name) for name in names}}

    def __str__(self) -> str:
        if len(self.shape) == 1:
            message = f"{self.shape[0]} tokens"
        else:
            first = "width" if self.reverse_axes else "height"
            message = f"{' x '.join(map(str, self.shape))} by {self.flatten}, columns of the {first} first"
        return message + (f", after {self.class_tokens} class tokens" if self.class_tokens else "")


@dataclass(frozen=True, repr=False)
class Match(Shown):
    """One explanation of a table.

    Attributes:
        conventions: Every convention that gives these values; conventions with this first position come first. Empty if
            the timescales are known but no convention has the layout, or if the table is too small.
        timescales_of: Every convention with these timescales. Empty if the table is too small.
        start_index: Position of the first row; for a grid, of its first position. Negative positions are distances.
        other_starts: Further first positions (below 2**17) that explain the table equally well within its precision.
        layout: As in `SinusoidalPositionEncoding`; two columns fit two layouts.
        max_timescale: The 10,000 of the formula, or None if the table is too small.
        timescales: In positions; for a grid, the timescales of each axis. It has one more than `channels // 2` values
            if the last column is a sine without a cosine.
        scale: Factor of the signal.
        max_abs_diff: Largest remaining difference, in the table's own units, without the rows of zeros.
        undecided: Names of the attributes that the table does not determine.
        grid: The image, or the sequence after class tokens, that the table belongs to; None for a plain sequence.
        step: 1, or -1 if the rows are in descending order, such as distances.
    """

    conventions: tuple[str, ...]
    timescales_of: tuple[str, ...]
    start_index: int
    other_starts: tuple[int, ...]
    layout: Layout
    max_timescale: float | None
    timescales: tuple[float, ...]
    scale: float
    max_abs_diff: float
    undecided: tuple[str, ...]
    grid: Grid | None = None
    step: int = 1

    def positions(self, length: int) -> npt.NDArray[np.intp]:
        """Returns the positions of `length` rows of a sequence: `(length,)`."""
        return self.start_index + self.step * np.arange(length)

    def layer_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `SinusoidalPositionEncoding` that give the table, except for its scale.

        Positions in descending order are arguments of the layer's call: `layer(x, positions=match.positions(length))`.
        """
        start = self.start_index if self.step > 0 else 0
        arguments = {"start_index": start, "layout": self.layout, "timescales": self.timescales}
        return arguments if self.grid is None else {**arguments, **self.grid.layer_arguments()}

    def _one_line(self) -> str:
        rows = self.details()
        first, *others = self.conventions or (rows["convention"],)
        name = f"{first} and {len(others)} others of the same numbers" if others else first
        return f"{name}, from position {self.start_index}, layout {rows['layout']}, scale {rows['scale']}"

    def details(self) -> Mapping[str, str]:
        """Returns the attributes that a notebook displays, by name."""
        starts = ", ".join(map(str, (self.start_index, *self.other_starts[:_SHOWN_STARTS])))
        more = len(self.other_starts) - _SHOWN_STARTS
        scales, order = self.timescales, "" if self.step > 0 else ", descending"
        longest = "" if self.max_timescale is None else f" (max_timescale {self.max_timescale:.10g})"
        return {
            "convention": self._names(),
            "first position": starts + (f" or one of {more} more" if more > 0 else "") + order,
            "layout": "either" if "layout" in self.undecided else self.layout,
            "timescales": f"{len(scales)}, from {scales[0]:.6g} to {scales[-1]:.6g} positions{longest}",
            "scale": f"{self.scale:.6g}",
            "largest difference": f"{self.max_abs_diff:.2g}",
            **({} if self.grid is None else {"grid": str(self.grid)}),
        }

    def _names(self) -> str:
        if "conventions" in self.undecided:
            return "undetermined: the table has too few columns to distinguish conventions"
        return ", ".join(self.conventions) or f"none: the timescales are of {', '.join(self.timescales_of)}"
