"""The configurations of the sinusoidal layer that many tests go through, and the exact signal each promises."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe.signal.formula import timing_signal

# The table entries are rounded once (2**-25 each), and two compositions round products and sums. The error is at most
# 2.4e-7, at all positions below 2**24 of 512 channels (benchmarks/accuracy/encodings.py).
EXACT = 2.5e-7

# Keras 3.8 to 3.12 ask each entry of a list for its shape.
none_in_lists = pytest.mark.skipif(
    tuple(map(int, keras.version().split(".")[:2])) < (3, 13), reason="this Keras takes no None in a list of tensors"
)

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "timescales_2_500": {"min_timescale": 2.0, "max_timescale": 500.0},
    "timescales_tenth_1e6": {"min_timescale": 0.1, "max_timescale": 1e6},
    "start_1": {"start_index": 1},
    "start_minus_3": {"start_index": -3},
    "start_100000": {"start_index": 100_000},
    "interleaved": {"layout": "interleaved"},
    "paper": {"layout": "interleaved", "endpoint": False},
    "no_endpoint": {"endpoint": False},
    "explicit": {"timescales": [1.0, 3.5, 20.0]},
    "explicit_interleaved": {"timescales": [0.7, 9.0, 1e5], "layout": "interleaved"},
    "concatenate": {"combine": "concatenate"},
    "concatenate_interleaved": {"combine": "concatenate", "layout": "interleaved"},
    "replace": {"combine": "replace"},
    "replace_start": {"combine": "replace", "start_index": 7},
    "table": {"max_length": 40},
    "table_start": {"max_length": 40, "start_index": 5},
    "table_interleaved": {"max_length": 40, "layout": "interleaved"},
    "table_replace": {"max_length": 40, "combine": "replace"},
    "table_concatenate": {"max_length": 40, "combine": "concatenate"},
    "table_explicit": {"max_length": 40, "timescales": [2.0, 4.0, 8.0]},
    "everything": {
        "min_timescale": 0.5,
        "max_timescale": 300.0,
        "start_index": 2,
        "layout": "interleaved",
        "endpoint": False,
        "combine": "concatenate",
        "max_length": 64,
    },
}


def exact_signal(config: dict[str, Any], positions: Any, channels: int) -> np.ndarray:
    """Returns what a layer of this configuration promises for one axis, `positions` counted from its start."""
    keys = ("min_timescale", "max_timescale", "layout", "endpoint", "timescales")
    arguments = {key: config[key] for key in keys if key in config}
    return timing_signal(np.asarray(positions) + config.get("start_index", 0), channels, **arguments)


def exact_grid(lengths: tuple[int, ...], channels: int) -> np.ndarray:
    """Returns the default signal of a grid: a block of columns for each axis, zeros for columns left over."""
    block = channels if len(lengths) == 1 else channels // (2 * len(lengths)) * 2
    signal = np.zeros((*lengths, channels))
    for axis, length in enumerate(lengths if block else ()):
        shape = [1] * len(lengths) + [block]
        shape[axis] = length
        signal[..., axis * block : (axis + 1) * block] = timing_signal(np.arange(length), block).reshape(shape)
    return signal


def run(layer: keras.layers.Layer, *inputs: Any, **arguments: Any) -> np.ndarray:
    """Returns what a layer, or a model, returns."""
    return ops.convert_to_numpy(layer(*inputs, **arguments))
