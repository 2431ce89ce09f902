"""What an export costs: time and peak memory of `export_onnx` against `keras.Model.export`, on one BERT of 200 MiB.

Each export runs in a process of its own, which builds the same model first; what is reported is the time of the export
alone, the highest resident memory of the process, and how far that is above the memory before the export.

    python benchmarks/export_cost.py
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, WIDTH, VOCABULARY = 4, 768, 30_522
MIB = 2**20


def measure(route: str) -> dict[str, float]:
    """Exports by one route in this process."""
    import keras_hub

    model = keras_hub.models.BertBackbone(VOCABULARY, LAYERS, 12, WIDTH, 3072, dropout=0.0)
    model({tensor.name: np.zeros((1, 3), "int32") for tensor in model.inputs})  # Keras exports no model before a call
    export = _ours(model) if route == "keras_pe" else _keras(model)
    before, start = _status("VmRSS"), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        export(Path(folder) / "bert.onnx")
        return {
            "seconds": time.perf_counter() - start,
            "peak": _status("VmHWM"),
            "above": _status("VmHWM") - before,
            "weights": sum(v.value.numpy().nbytes for v in model.weights) / MIB,
        }


def _ours(model: Any) -> Any:
    from keras_pe.export import export_onnx

    return lambda path: export_onnx(model, path)


def _keras(model: Any) -> Any:
    return lambda path: model.export(path, format="onnx", verbose=False)


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def main() -> None:
    """Measures both routes and prints the ratios."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    found = {}
    for route in ("keras_pe", "keras"):
        run = subprocess.run([sys.executable, __file__, route], check=True, stdout=subprocess.PIPE, text=True)
        found[route] = json.loads(run.stdout.splitlines()[-1])
        print(f"{route:8} {found[route]['seconds']:7.1f} s, peak {found[route]['peak']:7.0f} MiB, ", end="")
        print(f"above the model {found[route]['above']:6.0f} MiB ({found[route]['weights']:.0f} MiB of weights)")
    ours, theirs = found["keras_pe"], found["keras"]
    print(f"time: {theirs['seconds'] / ours['seconds']:.1f} times faster (wanted: 15)")
    print(f"peak memory: 1 / {theirs['peak'] / ours['peak']:.1f} (wanted: 1 / 7)")
    print(f"peak above the model: {ours['above'] / ours['weights']:.2f} times the weights (wanted: at most 1.3)")


if __name__ == "__main__":
    main()
