"""Measures the cost of `keras-pe check`: seconds, processor time and memory over all processes, from start to exit.

Saves, exports and checks three models, each by the command in a fresh process. The first is that of the demonstration
as ONNX and as a SavedModel, the second a Transformer of 200 MiB as ONNX. The third is a Dense layer, whose memory is
that of the libraries.
Memory is what all processes hold together at the worst moment, pages that several share counted once (Linux' PSS). A
look at it slows the check, so a second run is watched, and the first is timed. The memory of the libraries and of the
model itself is subtracted for a large model. The time of an import of Keras, measured just before, is printed beside
it: on a busy machine only the ratio of the two is meaningful.

    python -m benchmarks.exporter.check_cost [demonstration | large]...
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from benchmarks.exporter.parity_cost import build
from keras_pe.demo.forecaster import build_forecaster
from keras_pe.export import export_onnx, export_saved_model

_INTERVAL = 0.05  # seconds between two looks at the memory


def small() -> keras.Model:
    """Returns a model that weighs nothing."""
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])


def large() -> keras.Model:
    """Returns a Transformer of 200 MiB."""
    return build(blocks=4, channels=512, vocabulary=78_000)


MODELS: dict[str, Callable[[], keras.Model]] = {"demonstration": build_forecaster, "large": large}


def measure(build_model: Callable[[], keras.Model], with_saved_model: bool) -> dict[str, Any]:
    """Returns the cost of one check: seconds, processor seconds, peak bytes, bytes of weights, and the stages.

    With them stands what the import of Keras takes by itself.
    """
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        model, path = build_model(), Path(folder) / "model.keras"
        nbytes = sum(v.numpy().nbytes for v in model.variables)
        model.save(path)
        artifacts = [export_onnx(model, path.with_suffix(".onnx")).path]
        if with_saved_model:
            artifacts.append(export_saved_model(model, path.with_suffix("")).path)
        cost = {"import": _import_seconds(), **_run([path, *artifacts], is_watched=False)}
        return {"weights": nbytes, **cost, "peak": _run([path, *artifacts], is_watched=True)["peak"]}


def main() -> None:
    """Prints a line of JSON for each model."""
    names = sys.argv[1:] or list(MODELS)
    libraries = measure(small, with_saved_model=False)["peak"] if "large" in names else 0
    for name in names:
        cost = measure(MODELS[name], with_saved_model=name == "demonstration")
        if name == "large":
            cost["times_its_weights"] = round((cost["peak"] - libraries) / cost["weights"] - 1, 2)
        print(json.dumps({"model": name, **cost}), flush=True)


def _import_seconds() -> float:
    """Returns what a process takes that imports Keras, and does nothing else."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import keras"], check=True, capture_output=True)
    return round(time.perf_counter() - start, 2)


def _run(paths: list[Path], is_watched: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "keras_pe", "check", *map(str, paths), "--json"]
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    peak, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(_INTERVAL):
            peak = max(peak, sum(map(_proportional, _descendants(process.pid))))

    watcher = threading.Thread(target=watch)
    if is_watched:
        watcher.start()
    output, errors = process.communicate()
    seconds, after = time.perf_counter() - start, os.times()
    ended.set()
    if is_watched:
        watcher.join()
    if process.returncode:
        raise RuntimeError(errors.decode())
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    stages = {stage["name"]: round(stage["seconds"], 2) for stage in json.loads(output)["stages"]}
    return {"seconds": round(seconds, 2), "processor": round(spent, 2), "peak": peak, "stages": stages}


def _descendants(pid: int) -> list[int]:
    """Returns a process and all that it has started, directly or not."""
    try:
        tasks = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended meanwhile
        return []
    return [pid, *(each for children in tasks for child in children for each in _descendants(int(child)))]


def _proportional(pid: int) -> int:
    """Returns the bytes of a process, of pages that others have as well its share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
