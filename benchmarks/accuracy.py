"""How far the encodings in use are from the exact signal: the accuracy table of the README.

Usage: python benchmarks/accuracy.py [--exhaustive]

Prints, for 512 channels, the largest absolute difference from the float64 signal over positions 0 ... n - 1:
tensor2tensor's formula in float32 (run by TensorFlow as tensor2tensor's code runs it), the same with the timescales
from float64, and this package's layer; then what keras-hub's SinePositionEncoding and this layer leave of 2,048
positions in half precision. Positions are all of them up to 131,072; beyond, 65,536 at random and the last 65,536.
With --exhaustive the layer's tables are composed for every position below 2**24 (some minutes).
"""

import argparse
import math

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from keras_pe import SinusoidalPositionEncoding, timing_signal
from keras_pe.rotations import LIMIT, ComposedEncoding
from keras_pe.timescales import geometric_timescales

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


def largest_error(encode, positions: np.ndarray) -> float:
    """Returns the largest error over the positions, a block at a time."""
    blocks = np.array_split(positions, max(1, len(positions) // BLOCK))
    return max(np.abs(encode(block) - timing_signal(block, CHANNELS)).max() for block in blocks)


def sample(reach: int) -> np.ndarray:
    """Returns the positions below `reach`, or a sample where they are many."""
    if reach <= 131_072:
        return np.arange(reach, dtype="int32")
    middle = np.random.default_rng(0).integers(0, reach, 65_536)
    return np.concatenate([middle, np.arange(reach - 65_536, reach)]).astype("int32")


def half_precision(length: int = 2_048) -> None:
    """Prints what half precision leaves of `length` positions."""
    exact = timing_signal(np.arange(length), CHANNELS)
    paper = timing_signal(np.arange(length), CHANNELS, layout="interleaved", endpoint=False)
    print(f"\n{length} positions in half precision: largest error, distinct rows")
    for policy in ("mixed_bfloat16", "mixed_float16"):
        inputs = np.zeros((1, length, CHANNELS), "float32")
        ours = SinusoidalPositionEncoding(combine="replace", dtype=policy)(inputs)
        hub = keras_hub.layers.SinePositionEncoding(dtype=policy)(inputs)
        for name, signal, truth in (("keras-hub", hub, paper), ("keras_pe", ours, exact)):
            rows = np.asarray(tf.cast(signal, tf.float32))[0]
            print(f"  {policy:15} {name:10} {np.abs(rows - truth).max():9.1e} {len(np.unique(rows, axis=0)):6,}")


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


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exhaustive", action="store_true", help="compose every position below 2**24")
    arguments = parser.parse_args()
    print(f"keras {keras.__version__}, keras-hub {keras_hub.__version__}, {CHANNELS} channels, largest error")
    print(f"{'positions below':>16} {'tensor2tensor':>14} {'float64 scales':>14} {'keras_pe':>10}")
    for reach in REACHES:
        errors = [largest_error(each, sample(reach)) for each in (tensor2tensor_float32, product_float32, layer)]
        print(f"{reach:16,} {errors[0]:14.1e} {errors[1]:14.1e} {errors[2]:10.1e}")
    half_precision()
    if arguments.exhaustive:
        exhaustive()


if __name__ == "__main__":
    main()
