"""Whether an exported model is as fast in ONNX Runtime as Keras' own export of the same model.

Each file is exported in a process of its own, so that neither exporter changes tf2onnx for the other; then the two take
turns on one thread.

    python -m benchmarks.exporter.onnx_speed
"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.exporter.models import BUILDERS, trained
from benchmarks.measuring import in_own_process, interleaved

ROUTES = ("keras_pe", "keras")


def measure() -> dict[str, list[float]]:
    """Returns the seconds of a run by `model/route`."""
    found: dict[str, list[float]] = {}
    for name in BUILDERS:
        with tempfile.TemporaryDirectory() as folder:
            for route in ROUTES:
                in_own_process("benchmarks.exporter.onnx_speed", [name, route, folder])
            found |= in_own_process("benchmarks.exporter.onnx_speed", [name, "run", folder], threads=1)
    return found


def export(name: str, route: str, folder: Path) -> None:
    """Writes the file of one route, and the values that it is run on."""
    model, values = trained(name)
    np.save(folder / "values.npy", values)
    if route == "keras":
        model.export(folder / "keras.onnx", format="onnx", verbose=False)
        return
    from keras_pe.export import export_onnx

    export_onnx(model, folder / "keras_pe.onnx")


def run(name: str, folder: Path) -> dict[str, list[float]]:
    """Returns the seconds of a run of each file."""
    from benchmarks.speed.in_onnxruntime import session

    values, runs = np.load(folder / "values.npy"), {}
    for route in ROUTES:
        loaded = session((folder / f"{route}.onnx").read_bytes())
        runs[f"{name}/{route}"] = partial(loaded.run, None, {loaded.get_inputs()[0].name: values})
    return interleaved(runs, rounds=51)


def main() -> None:
    """Prints a line for each model; with arguments does one process' part."""
    if len(sys.argv) == 4:
        name, route, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
        print(json.dumps(run(name, folder) if route == "run" else export(name, route, folder)))
        return
    found = {name: median(values) for name, values in measure().items()}
    for name in BUILDERS:
        ours, theirs = (found[f"{name}/{route}"] for route in ROUTES)
        print(f"{name:14} keras_pe {ours * 1e3:7.2f} ms, keras {theirs * 1e3:7.2f} ms, ", end="")
        print(f"ratio {ours / theirs:.2f} (wanted: at most 1.05)")


if __name__ == "__main__":
    main()
