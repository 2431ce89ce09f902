"""What a convention is: one codebase's way of writing the signal, as arguments of the one layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras_pe.signal.layouts import Layout, check_channels
from keras_pe.signal.timescales import Float64Array, check_range, resolve_timescales

Schedule = Callable[[int, float], dict[str, Any]]


@dataclass(frozen=True)
class Convention:
    """One codebase's choice of timescales, layout and first position.

    Attributes:
        name: What `from_convention` and `identify` call it.
        source: Where the formula stands.
        layout: Order of the columns.
        schedule: Returns the layer's arguments for the timescales of `(channels, max_timescale)`.
        start_index: Position of the first token.
        min_channels: Narrowest width for which the codebase returns numbers.
        odd_channels: Whether the codebase has an answer for odd widths.
    """

    name: str
    source: str
    layout: Layout
    schedule: Schedule
    start_index: int = 0
    min_channels: int = 1
    odd_channels: bool = False

    def layer_arguments(self, channels: int, max_timescale: float = 1.0e4) -> dict[str, Any]:
        """Returns the arguments of `SinusoidalPositionEncoding` that give this convention's signal.

        Raises:
            ValueError: If the codebase has no signal of this width, or if `max_timescale` is less than 1.
        """
        check_channels(channels)
        check_range(1.0, max_timescale)
        if channels < self.min_channels or (channels % 2 and not self.odd_channels):
            kind = "any" if self.odd_channels else "an even"
            raise ValueError(
                f"`channels` must be {kind} number of at least {self.min_channels} in the convention {self.name!r}: "
                f"its source defines no other ({self.source}). Received: channels={channels}."
            )
        return {
            "start_index": self.start_index,
            "layout": self.layout,
            **self.schedule(channels, float(max_timescale)),
        }

    def timescales(self, channels: int, max_timescale: float = 1.0e4) -> Float64Array:
        """Returns the timescales of this convention's signal, in positions."""
        arguments = self.layer_arguments(channels, max_timescale)
        del arguments["start_index"], arguments["layout"]
        return resolve_timescales(channels, **arguments)
