"""The scenarios of the speed benchmark: positions, batches and lengths."""

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
    """

    name: str
    shapes: tuple[tuple[int, int], ...]
    arguments: Callable[[int, int], Arrays] = lambda batch, length: {}
    static: bool = False

    def inputs(self, batch: int, length: int) -> Arrays:
        """Returns all that is passed."""
        return {"x": np.zeros((batch, length, CHANNELS), "float32"), **self.arguments(batch, length)}


def _positions(batch: int, length: int) -> Arrays:
    drawn = np.random.default_rng(0).integers(0, LONGEST, (batch, length))
    return {"positions": drawn.astype("int32")}


def _start(batch: int, length: int) -> Arrays:
    # Within reach of `max_length`, and no multiple of anything.
    return {"start": np.array(max(0, min(77, LONGEST - length)), "int32")}


def _starts(batch: int, length: int) -> Arrays:
    return {"start": (np.arange(batch) * 7).astype("int32")}


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("range", ((1, 1), (1, 128), (1, 512), (8, 128), (1, 2048), (1, 8192))),
        Scenario("static", ((8, 128), (1, 2048)), static=True),
        Scenario("positions", ((8, 128), (32, 512)), _positions),
        Scenario("start", ((1, 128), (1, 2048), (1, 8000)), _start),
        Scenario("starts", ((8, 128), (32, 512)), _starts),
    )
}
