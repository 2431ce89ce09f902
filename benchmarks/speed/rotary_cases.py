"""The rotary encodings that the speed benchmark compares, with the shapes and positions of their queries."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks.speed.contestants import Contestant
from benchmarks.speed.scenarios import LONGEST, Arrays, Scenario

SHAPES = ((1, 1), (1, 128), (8, 128), (1, 2048), (1, 8192))
HEADS = ((8, 64), (8, 128), (32, 64), (32, 128))  # how many, of how many channels
BASE = "plain formula"
PRODUCT = "one product, as a layer"


@dataclass(frozen=True)
class Turning(Scenario):
    """One way to call a rotary encoding.

    Attributes:
        heads: How many, and the channels of each.
    """

    heads: tuple[int, int] = (8, 64)

    def inputs(self, batch: int, length: int) -> Arrays:
        """Returns all that is passed."""
        return {"x": np.ones((batch, length, *self.heads), "float32"), **self.arguments(batch, length)}


def _last_start(batch: int, length: int) -> Arrays:
    return {"start": np.array(LONGEST - length, "int32")}


def name_of(heads: int, channels: int) -> str:
    """Returns the name of the scenario of so many heads."""
    return f"{heads} heads of {channels}"


SCENARIOS = {
    each.name: each
    for each in (
        *(Turning(name_of(*heads), SHAPES, heads=heads) for heads in HEADS),
        Turning("step", ((1, 1), (8, 1)), _last_start, heads=(32, 128)),
    )
}


def plain_formula(x: Any, start: Any = None) -> Any:
    """As most code writes it: angles in float32, sines and cosines of all of them at each call."""
    channels = x.shape[-1]
    positions = ops.arange(ops.shape(x)[1], dtype="int32")
    positions = ops.cast(positions if start is None else positions + start, "float32")
    rates = (1.0e4 ** (-np.arange(0, channels, 2) / channels)).astype("float32")
    angles = ops.expand_dims(positions, -1) * rates
    angles = ops.expand_dims(ops.concatenate([angles, angles], axis=-1), 1)
    first, second = x[..., : channels // 2], x[..., channels // 2 :]
    return x * ops.cos(angles) + ops.concatenate([-second, first], axis=-1) * ops.sin(angles)


def _keras_hub() -> Callable[..., Any]:
    import keras_hub

    layer = keras_hub.layers.RotaryEmbedding()
    return lambda x, start=None: layer(x) if start is None else layer(x, start_index=start)


def _ours(**arguments: Any) -> Callable[..., Any]:
    from keras_pe import RotaryPositionEncoding

    layer = RotaryPositionEncoding(**arguments)
    return lambda x, start=None: layer(x) if start is None else layer(x, start_index=start)


def _product(x: Any, start: Any = None) -> Any:
    return 2.0 * x


def _layer_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function as a layer of Keras: what its call of a layer takes."""

    class Function(keras.layers.Layer):
        def call(self, x: Any, start: Any = None) -> Any:
            return function(x, start)

    return Function()


ALL = frozenset(SCENARIOS)
CONTESTANTS = (
    Contestant(BASE, lambda: plain_formula, ALL, layer=False),
    Contestant(PRODUCT, partial(_layer_of, _product), ALL),
    Contestant("plain formula, as a layer", partial(_layer_of, plain_formula), ALL),
    Contestant("keras-hub", _keras_hub, ALL),
    Contestant("keras_pe", _ours, ALL),
    Contestant("keras_pe, max_length", lambda: _ours(max_length=LONGEST), ALL),
)
