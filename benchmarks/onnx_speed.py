"""Whether an exported model is as fast in ONNX Runtime as Keras' own export of the same model.

One thread, runs of the two files interleaved, the median of each and their ratio.

    python benchmarks/onnx_speed.py
"""

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort

from keras_pe import SinusoidalPositionEncoding
from keras_pe.export import export_onnx

RUNS, WARM_UP = 101, 10


def encoder() -> tuple[keras.Model, Any]:
    """Two layers of a Transformer, and tokens for it."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = SinusoidalPositionEncoding()(keras.layers.Embedding(5000, 256)(tokens))
    for _ in range(2):
        x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(4, 64)(x, x))
        hidden = keras.layers.Dense(1024, activation="relu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(256)(hidden))
    return keras.Model(tokens, x), np.random.default_rng(0).integers(0, 5000, (4, 128)).astype("int32")


def lstm() -> tuple[keras.Model, Any]:
    """Two recurrent layers, and series for them."""
    values = keras.Input((None, 32), name="values")
    x = keras.layers.LSTM(128)(keras.layers.Bidirectional(keras.layers.LSTM(64, return_sequences=True))(values))
    return keras.Model(values, keras.layers.Dense(10)(x)), _normal(4, 128, 32)


def gru() -> tuple[keras.Model, Any]:
    """A recurrent layer of the other kind, which Keras exports as a loop."""
    values = keras.Input((None, 32), name="values")
    return keras.Model(values, keras.layers.Dense(10)(keras.layers.GRU(128)(values))), _normal(4, 128, 32)


def convolutional() -> tuple[keras.Model, Any]:
    """Three convolutions with batch normalisation, and images for them."""
    x = values = keras.Input((64, 64, 3), name="values")
    for width in (32, 64, 128):
        x = keras.layers.BatchNormalization()(keras.layers.Conv2D(width, 3, padding="same", activation="relu")(x))
        x = keras.layers.MaxPooling2D()(x)
    return keras.Model(values, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x))), _normal(4, 64, 64, 3)


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def compare(build: Callable[[], tuple[keras.Model, Any]]) -> tuple[float, float]:
    """Returns the median seconds of a run of this package's file and of Keras' own."""
    model, values = build()
    rng = np.random.default_rng(0)
    for weight in model.weights:  # as trained: a bias of zeros would be left out of a file, but not in real use
        weight.assign(weight + 0.05 * np.abs(rng.normal(size=weight.shape)))
    model(values)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras asks NumPy for np.object
        ours, theirs = Path(folder) / "ours.onnx", Path(folder) / "theirs.onnx"
        export_onnx(model, ours)
        model.export(theirs, format="onnx", verbose=False)
        sessions = [_session(path) for path in (ours, theirs)]
        times: list[list[float]] = [[], []]
        for run in range(RUNS + WARM_UP):
            for session, found in zip(sessions, times, strict=True):
                start = time.perf_counter()
                session.run(None, {session.get_inputs()[0].name: values})
                if run >= WARM_UP:
                    found.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def _session(path: Path) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Prints a line for each model."""
    for build in (encoder, lstm, gru, convolutional):
        ours, theirs = compare(build)
        print(f"{build.__name__:14} keras_pe {ours * 1e3:7.2f} ms, keras {theirs * 1e3:7.2f} ms, ", end="")
        print(f"ratio {ours / theirs:.2f} (wanted: at most 1.05)")


if __name__ == "__main__":
    main()
