"""How long the encoding takes in ONNX Runtime, relative to tensor2tensor's own graph, medians of interleaved runs.

Usage: python benchmarks/layer_speed.py

Each graph takes `(batch, length, 512)` and returns it with the encoding added; one thread; ratios within one run.
"""

import math
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import keras
import keras_hub
import numpy as np
import onnxruntime as ort
import tensorflow as tf
import tf2onnx

from keras_pe import SinusoidalPositionEncoding
from keras_pe.export import export_onnx

CHANNELS = 512
SHAPES = ((1, 1), (1, 128), (1, 512), (8, 128), (1, 2_048), (1, 8_192))
ROUNDS, LEAST_SECONDS = 15, 0.02


def tensor2tensor_graph(x: tf.Tensor) -> tf.Tensor:
    """tensor2tensor's arithmetic on a dynamic length."""
    count = CHANNELS // 2
    position = tf.cast(tf.range(tf.shape(x)[1]), tf.float32)
    rates = tf.exp(tf.cast(tf.range(count), tf.float32) * -(math.log(1.0e4) / (count - 1)))
    angles = position[:, None] * rates
    return x + tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)


def session(path_or_bytes: Path | bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path_or_bytes, options, providers=["CPUExecutionProvider"])


def sessions(folder: Path) -> dict[str, ort.InferenceSession]:
    """Returns the graphs to compare, tensor2tensor's first."""

    def of(layer_or_function, name: str) -> ort.InferenceSession:
        inputs = keras.Input((None, CHANNELS), name="x")
        export_onnx(keras.Model(inputs, layer_or_function(inputs)), folder / f"{name}.onnx")
        return session(folder / f"{name}.onnx")

    signature = [tf.TensorSpec([None, None, CHANNELS], name="x")]
    own, _ = tf2onnx.convert.from_function(tf.function(tensor2tensor_graph, signature), signature, opset=18)
    return {
        "tensor2tensor": session(own.SerializeToString()),
        "keras-hub": of(lambda x: x + keras_hub.layers.SinePositionEncoding()(x), "hub"),
        "keras_pe": of(SinusoidalPositionEncoding(), "unbounded"),
        "max_length": of(SinusoidalPositionEncoding(max_length=8_192), "table"),
    }


def seconds(run, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def main() -> None:
    """Prints one row a shape."""
    with tempfile.TemporaryDirectory() as folder:
        graphs = sessions(Path(folder))
    print(f"{'batch, length':>14}" + "".join(f"{name:>14}" for name in graphs))
    for batch, length in SHAPES:
        feed = {"x": np.zeros((batch, length, CHANNELS), "float32")}
        runs = {name: partial(graph.run, None, feed) for name, graph in graphs.items()}
        once = {name: seconds(run, 3) for name, run in runs.items()}
        repeats = {name: max(1, round(LEAST_SECONDS / spent)) for name, spent in once.items()}
        taken = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                taken[name].append(seconds(run, repeats[name]))
        median = {name: statistics.median(each) for name, each in taken.items()}
        ratios = [median[name] / median["tensor2tensor"] for name in graphs]
        print(f"{batch:>6}, {length:>6}" + "".join(f"{ratio:14.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
