"""Measures the cost of an export: time and peak memory of `export_onnx` and `keras.Model.export`, on a BERT of 200 MiB.

Each export runs in a subprocess, which builds the same model first. It reports the time of the export alone, the
highest resident memory of the process, and the increase over the memory before the export.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import memory, run_in_process

LAYERS, WIDTH, VOCABULARY = 4, 768, 30_522
ROUTES = ("keras_pe", "keras")


def measure() -> dict[str, dict[str, float]]:
    """Returns the figures of each route: `seconds`, and `peak`, `above` and `weights` in bytes."""
    return {route: run_in_process("exporter.export_cost:export", route) for route in ROUTES}


def export(route: str) -> dict[str, float]:
    """Exports by one route in this process."""
    import keras_hub

    model = keras_hub.models.BertBackbone(VOCABULARY, LAYERS, 12, WIDTH, 3072, dropout=0.0)
    model({tensor.name: np.zeros((1, 3), "int32") for tensor in model.inputs})  # Keras exports no model before a call
    if route == "keras_pe":
        from keras_pe.export import export_onnx
    before, start = memory("VmRSS"), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bert.onnx"
        if route == "keras_pe":
            export_onnx(model, path)
        else:
            model.export(path, format="onnx", verbose=False)
        return {
            "seconds": time.perf_counter() - start,
            "peak": memory("VmHWM"),
            "above": memory("VmHWM") - before,
            "weights": sum(v.value.numpy().nbytes for v in model.weights),
        }
