"""The scenarios of the speed benchmark: positions, batches, lengths, and the heads of rotary encodings."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

CHANNELS = 512
LONGEST = 8192  # `max_length` of the contestants that have one

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Scenario:
    """One way to call an encoding.

    Attributes:
        name: In the results and the tables.
        shapes: `(batch, length)` of the inputs.
        arguments: Returns what is passed beside the inputs, from the batch and the length.
        static: Whether the shape is known when a graph is traced.
        row: The axes of the inputs behind batch and length: channels, or heads and the channels of each.
    """

    name: str
    shapes: tuple[tuple[int, int], ...]
    arguments: Callable[[int, int], Arrays] = lambda batch, length: {}
    static: bool = False
    row: tuple[int, ...] = (CHANNELS,)

    def inputs(self, batch: int, length: int) -> Arrays:
        """Returns all that is passed."""
        return {"x": np.ones((batch, length, *self.row), "float32"), **self.arguments(batch, length)}


def _positions(batch: int, length: int) -> Arrays:
    drawn = np.random.default_rng(0).integers(0, LONGEST, (batch, length))
    return {"positions": drawn.astype("int32")}


def _start(batch: int, length: int) -> Arrays:
    # Within reach of `max_length`, and no multiple of anything.
    return {"start": np.array(max(0, min(77, LONGEST - length)), "int32")}


def _starts(batch: int, length: int) -> Arrays:
    return {"start": (np.arange(batch) * 7).astype("int32")}


def _last_start(batch: int, length: int) -> Arrays:
    return {"start": np.array(LONGEST - length, "int32")}


_ROTARY_SHAPES = ((1, 1), (1, 128), (8, 128), (1, 2048), (1, 8192))
SCENARIOS = {
    "sinusoidal": (
        Scenario("range", ((1, 1), (1, 128), (1, 512), (8, 128), (1, 2048), (1, 8192))),
        Scenario("static", ((8, 128), (1, 2048)), static=True),
        Scenario("positions", ((8, 128), (32, 512)), _positions),
        Scenario("start", ((1, 128), (1, 2048), (1, 8000)), _start),
        Scenario("starts", ((8, 128), (32, 512)), _starts),
    ),
    "rotary": (
        *(
            Scenario(f"{heads} heads of {channels}", _ROTARY_SHAPES, row=(heads, channels))
            for heads in (8, 32)
            for channels in (64, 128)
        ),
        Scenario("step", ((1, 1), (8, 1)), _last_start, row=(32, 128)),
    ),
}
