"""Measures the error of the usual formula and of this package's layer in each runtime, for docs/positions.md.

    python -m benchmarks.accuracy.elsewhere [RUNTIME ...]

Exports two models that take positions: the layer, and sin and cos of position times rate, as most code writes it. Runs
both in ONNX Runtime here, in WebAssembly and on WebGPU, or in the named runtimes. Prints the largest error against the
exact signal over the 256 positions up to each. The last rows show positions beyond the layer's tables. Needs Node,
Chromium and onnxruntime-web: see docs/runtimes.md.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from keras_pe import SinusoidalPositionEncoding, timing_signal
from keras_pe.export import export_onnx
from keras_pe.export.runtimes import RuntimeFailedError
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker
from keras_pe.signal.formula import geometric_timescales

CHANNELS = 64
WINDOW = 256
REACHES = (256, 10_000, 131_072, 1_000_000, 2**24 - 1)
BEYOND = (2**24, 2**24 + 12_345, 2**31 - 1, -(2**24), -(2**31))
RUNTIMES = ("onnxruntime[all]", "onnxruntime_web[wasm]", "onnxruntime_web[webgpu]", "onnxruntime_web[webgpu-jsep]")


class UsualFormula(keras.layers.Layer):
    """sin and cos of position times rate, in float32."""

    def call(self, inputs: Any, positions: Any) -> Any:
        rates = (1 / geometric_timescales(CHANNELS // 2)).astype("float32")
        angles = keras.ops.cast(positions, "float32")[..., None] * rates
        signal = keras.ops.concatenate([keras.ops.sin(angles), keras.ops.cos(angles)], axis=-1)
        return 0 * inputs + signal


def export(encoding: keras.layers.Layer, path: Path) -> Path:
    """Writes a model that returns the encoding of the positions it is given."""
    x = keras.Input((None, CHANNELS), name="x")
    positions = keras.Input((None,), dtype="int32", name="positions")
    return export_onnx(keras.Model([x, positions], encoding(x, positions=positions), name=path.stem), path).path


def run(worker: Worker, positions: np.ndarray) -> np.ndarray:
    """Returns the encoding of the positions."""
    inputs = {"x": np.zeros((1, len(positions), CHANNELS), "float32"), "positions": positions[None].astype("int32")}
    (output,) = worker.run(inputs).values()
    return output[0]


def error(worker: Worker, last: int) -> str:
    """Returns the largest error over the positions up to `last`, or what the runtime says."""
    positions = np.arange(last - WINDOW + 1, last + 1)
    return f"{np.abs(run(worker, positions) - timing_signal(positions, CHANNELS)).max():.1e}"


def beyond(worker: Worker, position: int) -> str:
    """Returns what comes of a position beyond the tables: the others must stay what they are."""
    positions = np.array([5, position, 7])
    try:
        encoding = run(worker, positions)
    except RuntimeFailedError:
        return "error"
    away = np.abs(encoding - timing_signal(positions, CHANNELS)).max(axis=1)
    if np.isnan(encoding[1]).all() and away[[0, 2]].max() < 1e-6:
        return "NaN"
    return f"wrong by {away.max():.1g}" if away.max() > 1e-6 else "right"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runtimes", nargs="*", default=RUNTIMES)
    specs = find_runtimes(parser.parse_args().runtimes)
    with tempfile.TemporaryDirectory() as folder:
        usual = export(UsualFormula(), Path(folder) / "usual.onnx")
        layer = export(SinusoidalPositionEncoding(combine="replace"), Path(folder) / "layer.onnx")
        columns = [("up to position", [f"{last:,}" for last in (*REACHES, *BEYOND)])]
        versions = []
        for spec in specs:
            for name, path in (("usual", usual), ("layer", layer)):
                with Worker(spec, timeout=120) as worker:
                    worker.load(path)
                    cells = [error(worker, last) for last in REACHES]
                    cells += [beyond(worker, position) if name == "layer" else "" for position in BEYOND]
                    columns.append((f"{spec.name}, {name}", cells))
                    versions.append(worker.version)
    print("| " + " | ".join(title for title, _ in columns) + " |")
    print("|" + " --- |" * len(columns))
    for row in zip(*(cells for _, cells in columns), strict=True):
        print("| " + " | ".join(row) + " |")
    print("\n" + "; ".join(dict.fromkeys(versions)))


if __name__ == "__main__":
    main()
