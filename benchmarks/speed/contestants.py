"""The encodings that the speed benchmark compares. The first of each kind is a formula, as most code writes it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from benchmarks.speed.scenarios import LONGEST


@dataclass(frozen=True)
class Contestant:
    """An encoding that is added to its inputs, or that rotates them.

    Attributes:
        name: In the results and the tables.
        make: Returns the function of `x` and the scenario's arguments.
        layer: Whether it is a Keras layer, which a model is exported with; or else a function.
        lacks: A scenario that it cannot run.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    layer: bool = True
    lacks: str = ""


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


def plain_formula(x: Any, start: Any = None) -> Any:
    """As most code writes a rotary encoding: angles in float32, sines and cosines of all of them at each call."""
    channels = x.shape[-1]
    positions = ops.arange(ops.shape(x)[1], dtype="int32")
    positions = ops.cast(positions if start is None else positions + start, "float32")
    rates = (1.0e4 ** (-np.arange(0, channels, 2) / channels)).astype("float32")
    angles = ops.expand_dims(positions, -1) * rates
    angles = ops.expand_dims(ops.concatenate([angles, angles], axis=-1), 1)
    first, second = x[..., : channels // 2], x[..., channels // 2 :]
    return x * ops.cos(angles) + ops.concatenate([-second, first], axis=-1) * ops.sin(angles)


def _hub(kind: str) -> Callable[..., Any]:
    import keras_hub

    layer = getattr(keras_hub.layers, kind)()

    def call(x: Any, positions: Any = None, start: Any = None) -> Any:
        encoded = layer(x, positions=positions) if start is None else layer(x, start_index=start)
        return encoded if kind == "RotaryEmbedding" else x + encoded

    return call


def _ours(kind: str, **arguments: Any) -> Callable[..., Any]:
    import keras_pe

    layer = getattr(keras_pe, kind)(**arguments)

    def call(x: Any, positions: Any = None, start: Any = None) -> Any:
        given = {"positions": positions, "start_index": start}
        return layer(x, **{name: value for name, value in given.items() if value is not None})

    return call


CONTESTANTS = {
    "sinusoidal": (
        Contestant("tensor2tensor", lambda: tensor2tensor, layer=False),
        Contestant("keras-hub", lambda: _hub("SinePositionEncoding"), lacks="starts"),
        Contestant("keras_pe", lambda: _ours("SinusoidalPositionEncoding")),
        Contestant("keras_pe, max_length", lambda: _ours("SinusoidalPositionEncoding", max_length=LONGEST)),
    ),
    "rotary": (
        Contestant("plain formula", lambda: plain_formula, layer=False),
        Contestant("keras-hub", lambda: _hub("RotaryEmbedding")),
        Contestant("keras_pe", lambda: _ours("RotaryPositionEncoding")),
        Contestant("keras_pe, max_length", lambda: _ours("RotaryPositionEncoding", max_length=LONGEST)),
    ),
}
