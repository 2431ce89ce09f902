"""Who is compared: each adds an encoding to its inputs. One formula each, in Keras ops, for every backend."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from benchmarks.speed.scenarios import LONGEST, Arrays, Scenario
from keras_pe.rotations import UNITS

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
    """What a long range cannot go below without a sine or a longer table: products, their sum, and what is cut off."""

    def inputs(self, scenario: Scenario, batch: int, length: int) -> Arrays:
        """Returns the inputs, the rows of one block, and the rotations of all blocks."""
        x = scenario.inputs(batch, length)["x"]
        block, blocks = np.ones((UNITS, x.shape[-1]), "float32"), np.ones((-(-length // UNITS), x.shape[-1]), "float32")
        return {"x": x, "units": block, "swapped": block, "cos": blocks, "sin": blocks}


def one_composition(x: Any, units: Any, swapped: Any, cos: Any, sin: Any) -> Any:
    """The addition theorem, all its operands ready."""
    signal = units * ops.expand_dims(cos, 1) + swapped * ops.expand_dims(sin, 1)
    return x + ops.reshape(signal, (-1, x.shape[-1]))[: ops.shape(x)[1]]


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
    OneComposition("one composition", lambda: one_composition, frozenset(("range",)), layer=False),
    ReadyRows("ready rows", lambda: lambda x, ready: ops.add(x, ready), layer=False),
)
