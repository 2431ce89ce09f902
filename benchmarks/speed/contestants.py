"""The encodings that the speed benchmark compares, each as one formula in Keras operations for all backends."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from benchmarks.speed.scenarios import LONGEST, Arrays, Scenario
from keras_pe.rotations.composed import MIDDLES, UNITS, compose
from keras_pe.rotations.lookup import take

ALL = frozenset(("range", "static", "positions", "start", "starts"))


@dataclass(frozen=True)
class Contestant:
    """Something that adds an encoding.

    Attributes:
        name: In the results and the tables.
        make: Returns the function of `x` and the scenario's arguments.
        scenarios: Names of those that it has an answer to.
        layer: Whether it is a Keras layer, which a model is exported with; or else a function.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    scenarios: frozenset[str] = ALL
    layer: bool = True

    def inputs(self, scenario: Scenario, batch: int, length: int) -> Arrays:
        """Returns what it is called with: the scenario's inputs."""
        return scenario.inputs(batch, length)


class ReadyRows(Contestant):
    """The floor: somebody has made the rows already, and they are only added."""

    def inputs(self, scenario: Scenario, batch: int, length: int) -> Arrays:
        asked = scenario.inputs(batch, length)
        rows = batch if scenario.name in ("positions", "starts") else 1
        return {"x": asked["x"], "ready": np.ones((rows, length, asked["x"].shape[-1]), "float32")}


class OneComposition(Contestant):
    """Lower bound of the addition theorem: look-ups, products, sums, and slices; no digits, no checks.

    A start that only the graph knows lies within a block: a range from it needs one block more, and is cut out of them.
    """

    def inputs(self, scenario: Scenario, batch: int, length: int) -> Arrays:
        """Returns the inputs, the rows of one block, the rotations of blocks, and the requested indices of both."""
        asked = scenario.inputs(batch, length)
        width = asked["x"].shape[-1]
        if scenario.name == "positions":
            tables = {name: np.ones((rows, width // 2), "float32") for name, rows in _TABLES.items()}
            blocks, units = np.divmod(asked["positions"], UNITS)
            return {"x": asked["x"], **tables, "blocks": blocks, "units": units}
        count = -(-length // UNITS) + (scenario.name == "start")
        rotations = {name: np.ones((count, width), "float32") for name in ("cos", "sin")}
        block = {name: np.ones((UNITS, width), "float32") for name in ("units", "swapped")}
        skipped = {"skipped": asked["start"]} if scenario.name == "start" else {}
        return {"x": asked["x"], **block, **rotations, **skipped}


_TABLES = {"sin": MIDDLES, "cos": MIDDLES, "unit_sin": UNITS, "unit_cos": UNITS}


def one_composition(x: Any, **operands: Any) -> Any:
    """The addition theorem, all its operands ready."""
    return x + (_looked_up(**operands) if "blocks" in operands else _rotate_blocks(*ops.shape(x)[1:], **operands))


def _rotate_blocks(length: Any, width: int, units: Any, swapped: Any, cos: Any, sin: Any, skipped: Any = None) -> Any:
    rows = ops.reshape(units * ops.expand_dims(cos, 1) + swapped * ops.expand_dims(sin, 1), (-1, width))
    return rows[:length] if skipped is None else ops.slice(rows, (skipped, 0), (length, width))


def _looked_up(sin: Any, cos: Any, unit_sin: Any, unit_cos: Any, blocks: Any, units: Any) -> Any:
    one, other = (
        (take(sine, rows), take(cosine, rows))
        for sine, cosine, rows in ((sin, cos, blocks), (unit_sin, unit_cos, units))
    )
    return ops.concatenate(compose(one, other), axis=-1)


def tensor2tensor(x: Any, positions: Any = None, start: Any = None) -> Any:
    """tensor2tensor's arithmetic: angles in float32, sines and cosines of all of them at each call."""
    if positions is None:
        positions = ops.arange(ops.shape(x)[1], dtype="int32")
        if start is not None:
            positions = positions + (start if len(start.shape) == 0 else ops.expand_dims(start, -1))
    count = x.shape[-1] // 2
    rates = ops.exp(ops.arange(count, dtype="float32") * -(math.log(1.0e4) / (count - 1)))
    angles = ops.expand_dims(ops.cast(positions, "float32"), -1) * rates
    return x + ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


def _keras_hub() -> Callable[..., Any]:
    import keras_hub

    layer = keras_hub.layers.SinePositionEncoding()

    def call(x: Any, positions: Any = None, start: Any = None) -> Any:
        return x + (layer(x, positions=positions) if start is None else layer(x, start_index=start))

    return call


def ours(**arguments: Any) -> Callable[..., Any]:
    """Returns this package's layer."""
    from keras_pe import SinusoidalPositionEncoding

    layer = SinusoidalPositionEncoding(**arguments)

    def call(x: Any, positions: Any = None, start: Any = None) -> Any:
        given = {"positions": positions, "start_index": start}
        return layer(x, **{name: value for name, value in given.items() if value is not None})

    return call


# The first is what the others are compared with.
CONTESTANTS = (
    Contestant("tensor2tensor", lambda: tensor2tensor, layer=False),
    # One start for all examples is all that its `start_index` can be.
    Contestant("keras-hub", _keras_hub, ALL - {"starts"}),
    Contestant("keras_pe", ours),
    Contestant("keras_pe, max_length", lambda: ours(max_length=LONGEST)),
    OneComposition("one composition", lambda: one_composition, frozenset(("range", "positions", "start")), layer=False),
    ReadyRows("ready rows", lambda: lambda x, ready: ops.add(x, ready), layer=False),
)
