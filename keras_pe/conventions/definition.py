"""A convention: the signal of one codebase, as arguments of the layer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.signal.formula import Float64Array, check_range, resolve_timescales
from keras_pe.signal.layouts import Layout, check_channels

_SCHEDULE = ("min_timescale", "max_timescale", "endpoint", "timescales")
Schedule = Callable[[int, float], dict[str, Any]]


@dataclass(frozen=True)
class Convention:
    """One codebase's choice of timescales, layout and first position.

    Attributes:
        name: The name in `from_convention` and `identify`.
        source: File and function of the formula.
        layout: Order of the columns.
        schedule: Returns the layer's arguments for the timescales of `(channels, max_timescale)`. None if the caller
            must pass a matrix instead of timescales; the layer is then `FourierFeatures`.
        start_index: Position of the first token.
        min_channels: Narrowest width for which the codebase returns finite values.
        odd_channels: Whether the codebase supports odd widths.
        max_timescale: The codebase's default; the formula has 10,000.
        whole_positions: Whether the positions are those of tokens, so that the rows of a table identify them.
        descending: Whether the tables contain distances between tokens, the largest first.
        axes: Number of axes of the positions: 1 for sequences, 2 for images, 3 for points in space, 4 for boxes.
        grid: Coordinates of the axes and order of their blocks, as arguments of the layer.
        scale: Factor of the signal, as a function of the width.
    """

    name: str
    source: str
    layout: Layout
    schedule: Schedule | None
    start_index: int = 0
    min_channels: int = 1
    odd_channels: bool = False
    max_timescale: float = 1.0e4
    whole_positions: bool = True
    descending: bool = False
    axes: int = 1
    grid: Mapping[str, Any] = field(default_factory=dict)
    scale: Callable[[int], float] | None = None

    def has(self, channels: int) -> bool:
        """Whether the codebase has a signal of this width."""
        return channels >= self.min_channels and channels % self._unit == 0

    @property
    def _unit(self) -> int:
        """Divisor of the number of channels. It does not contain the axes for a matrix, whose columns mix all axes."""
        return 1 if self.odd_channels else 2 if self.schedule is None else 2 * self.axes

    def layer_arguments(self, channels: int, max_timescale: float | None = None) -> dict[str, Any]:
        """Returns the layer's arguments for this convention's signal.

        Raises:
            ValueError: If the codebase has no signal of this width, or `max_timescale` is less than 1.
        """
        check_channels(channels)
        longest = self.max_timescale if max_timescale is None else max_timescale
        check_range(1.0, longest)
        if not self.has(channels):
            kind = {1: "any", 2: "an even"}.get(self._unit, f"a multiple of {self._unit}, a")
            raise ArgValueError(
                "channels",
                f"must be {kind} number of at least {self.min_channels} in the convention {self.name!r}: "
                f"its source defines no other ({self.source}). Received: channels={channels}.",
            )
        if self.schedule is None:
            return {"layout": self.layout, **self.grid}
        return {
            "start_index": self.start_index,
            "layout": self.layout,
            **self.schedule(channels // self.axes, float(longest)),
            **self.grid,
            **({"scale": self.scale(channels)} if self.scale else {}),
        }

    def timescales(self, channels: int, max_timescale: float | None = None) -> Float64Array:
        """Returns the timescales of this convention's signal, in positions; for a grid, the timescales of each axis."""
        arguments = self.layer_arguments(channels, max_timescale)
        schedule = {name: value for name, value in arguments.items() if name in _SCHEDULE}
        return resolve_timescales(channels // self.axes, **schedule)
