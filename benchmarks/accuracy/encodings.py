"""Measures the largest errors of common encodings, for the accuracy tables.

For 512 channels, they are the largest absolute difference from the float64 signal over positions 0 ... n - 1.
The encodings are tensor2tensor's formula in float32 (run by TensorFlow as tensor2tensor's code runs it), the formula
with timescales from float64, and this package's layer. The half-precision figures are of keras-hub's
SinePositionEncoding and this layer at 2,048 positions. Positions up to 131,072 are all tried; beyond, 65,536 at random
and the last 65,536.
`python -m benchmarks.accuracy.encodings` composes the layer's tables for every position below 2**24, in some minutes.
"""

import math
from collections.abc import Callable
from typing import Any

import keras_hub
import numpy as np
import tensorflow as tf

from keras_pe import SinusoidalPositionEncoding, timing_signal
from keras_pe.rotations.composed import LIMIT, ComposedEncoding
from keras_pe.signal.formula import geometric_timescales

CHANNELS = 512
REACHES = (512, 4_096, 131_072, LIMIT)
BLOCK = 16_384


def tensor2tensor_float32(positions: np.ndarray) -> np.ndarray:
    """tensor2tensor's arithmetic: timescales and angles in float32."""
    count = CHANNELS // 2
    increment = math.log(1.0e4) / tf.maximum(tf.cast(count, tf.float32) - 1, 1)
    rates = tf.exp(tf.cast(tf.range(count), tf.float32) * -increment)
    angles = tf.cast(positions, tf.float32)[:, None] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1).numpy()


def product_float32(positions: np.ndarray) -> np.ndarray:
    """Timescales rounded once from float64, angles in float32."""
    rates = (1 / geometric_timescales(CHANNELS // 2)).astype("float32")
    angles = positions.astype("float32")[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def layer(positions: np.ndarray) -> np.ndarray:
    """This package's layer, positions given."""
    encoding = SinusoidalPositionEncoding(combine="replace")
    return np.asarray(encoding(np.zeros((1, len(positions), CHANNELS), "float32"), positions=positions))[0]


def largest_error(encode: Callable[[np.ndarray], np.ndarray], positions: np.ndarray) -> float:
    """Returns the largest error over the positions, a block at a time."""
    blocks = np.array_split(positions, max(1, len(positions) // BLOCK))
    return max(np.abs(encode(block) - timing_signal(block, CHANNELS)).max() for block in blocks)


def sample(reach: int) -> np.ndarray:
    """Returns the positions below `reach`, or a sample where they are many."""
    if reach <= 131_072:
        return np.arange(reach, dtype="int32")
    middle = np.random.default_rng(0).integers(0, reach, 65_536)
    return np.concatenate([middle, np.arange(reach - 65_536, reach)]).astype("int32")


def half_precision(length: int = 2_048) -> dict[str, dict[str, list[float]]]:
    """Returns what half precision leaves of `length` positions: the largest error, and how many rows are distinct."""
    exact = timing_signal(np.arange(length), CHANNELS)
    paper = timing_signal(np.arange(length), CHANNELS, layout="interleaved", endpoint=False)
    found: dict[str, dict[str, list[float]]] = {}
    for policy in ("mixed_bfloat16", "mixed_float16"):
        inputs = np.zeros((1, length, CHANNELS), "float32")
        ours = SinusoidalPositionEncoding(combine="replace", dtype=policy)(inputs)
        hub = keras_hub.layers.SinePositionEncoding(dtype=policy)(inputs)
        found[policy] = {}
        for name, signal, truth in (("keras-hub", hub, paper), ("keras_pe", ours, exact)):
            rows = np.asarray(tf.cast(signal, tf.float32))[0]
            found[policy][name] = [float(np.abs(rows - truth).max()), len(np.unique(rows, axis=0))]
    return found


def exhaustive() -> None:
    """Prints the largest error of the range from 0 to 2**24 - 1, all of it, 16 channels at a time."""
    worst = 0.0
    scales = geometric_timescales(CHANNELS // 2)
    for first in range(0, len(scales), 8):
        encoding = ComposedEncoding(scales[first : first + 8], 16, "concatenated", 0, "float32", -LIMIT, LIMIT)
        signal = np.asarray(encoding.range(LIMIT))
        for start in range(0, LIMIT, 2**20):
            exact = timing_signal(np.arange(start, start + 2**20), 16, timescales=scales[first : first + 8])
            worst = max(worst, np.abs(signal[start : start + 2**20] - exact).max())
    print(f"\nall positions below {LIMIT:,}, all {CHANNELS} channels: {worst:.3e}")


def measure() -> dict[str, Any]:
    """Returns the figures of the README's two tables."""
    encodings = {"tensor2tensor": tensor2tensor_float32, "float64 timescales": product_float32, "keras_pe": layer}
    errors = {
        str(reach): {name: float(largest_error(each, sample(reach))) for name, each in encodings.items()}
        for reach in REACHES
    }
    return {"largest error below": errors, "half precision": half_precision()}


if __name__ == "__main__":
    exhaustive()
