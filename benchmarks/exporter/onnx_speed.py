"""Measures the speed of exported files in ONNX Runtime, beside the files of other exporters.

The contestants are Keras' own export of the same model and, if `transformers` is installed and has the architecture,
both of PyTorch's exporters. ONNX Runtime's optimizer of transformers rewrites the files of both. Each file is written
in a subprocess, so that no exporter changes another. Then they take turns, on one thread and on two, opened eight
times. Our file runs twice each time: its ratio to itself is the noise of the measurement. The results also have the
numbers of operators and of transpositions.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.exporter.models import CASES, MEASURED, build
from benchmarks.measuring import Run, run_in_process, time_openings

_DTYPES = {"tensor(float)": "float32", "tensor(int32)": "int32", "tensor(int64)": "int64", "tensor(bool)": "bool"}
_OPTIMIZED = {"torch optimized": "torch", "torchscript optimized": "torchscript"}
OURS = "keras_pe"
ROUTES = (OURS, "keras", "torch", "torchscript", *_OPTIMIZED)
ITSELF = "keras_pe again"


def measure(names: Sequence[str] = (), threads: Sequence[int] = (1,)) -> dict[str, Any]:
    """Returns the seconds of each run by `model, batch x size, threads/route`, and the counts of operators.

    Args:
        names: Models to measure; all of them by default.
        threads: The numbers of threads to run on, each in a process that has as many cores.
    """
    seconds: dict[str, list[float]] = {}
    operators: dict[str, dict[str, list[int]]] = {}
    left_out: list[str] = []
    for name in names or MEASURED:
        with tempfile.TemporaryDirectory() as folder:
            for route in ROUTES:
                backend = "torch" if route.startswith("torch") else "tensorflow"  # it dies with both in one process
                try:
                    run_in_process("exporter.onnx_speed:export", name, route, folder, backend=backend)
                except RuntimeError as error:
                    reasons = [line for line in str(error).splitlines() if "Error" in line] or ["its process died"]
                    left_out.append(f"{name}, {route}: {reasons[-1]}")
            for count in threads:
                found = run_in_process("exporter.onnx_speed:run", name, folder, count, threads=count)
                seconds |= found["seconds"]
        operators[name] = found["operators"]
        left_out += found["left out"]
    return {"seconds": seconds, "operators": operators, "left out": list(dict.fromkeys(left_out))}


def export(name: str, route: str, directory: str) -> None:
    """Writes the file of one route, where that has the model."""
    folder = Path(directory)
    path = folder / f"{route}.onnx"
    model = MEASURED[name]
    if route.startswith("torch"):
        if find_spec("transformers") is None:
            return
        from benchmarks.exporter import torch_exports

        source = folder / f"{_OPTIMIZED.get(route)}.onnx"
        if route in _OPTIMIZED:
            if model.architecture in torch_exports.KINDS and source.is_file():
                torch_exports.optimize(model.architecture, source, path)
        elif model.architecture in torch_exports.BUILDERS:
            torch_exports.export(model.architecture, route == "torch", path, model.opset)
    elif route == "keras":
        build(name).export(path, format="onnx", verbose=False)
    else:
        from keras_pe.export import export_onnx

        export_onnx(build(name), path, opset_version=model.opset)


def run(name: str, directory: str, threads: int) -> dict[str, Any]:
    """Returns the seconds of a run of each file on each case, and the numbers of its operators and transpositions."""
    from benchmarks.speed.in_onnxruntime import session

    folder, feeds = Path(directory), MEASURED[name].feeds
    files = {route: folder / f"{route}.onnx" for route in ROUTES if (folder / f"{route}.onnx").is_file()}
    contents = {route: file.read_bytes() for route, file in files.items()}

    def open_session(route: str, case: tuple[int, int]) -> Run:
        loaded = session(contents[route], threads)
        return partial(loaded.run, None, _feed(loaded, feeds(*case)))

    seconds: dict[str, list[float]] = {}
    refusals: dict[tuple[str, str], list[str]] = {}
    for case in CASES[feeds]:
        size = " x ".join(map(str, case))
        label = f"{name}, {size}, {threads} thread{'s' * (threads > 1)}"
        openers: dict[str, Callable[[], Run]] = {}
        for route in files:
            try:
                open_session(route, case)()
            except Exception as error:  # the runtime has its own exception types
                reason = " ".join(str(error).split())[:200]
                refusals.setdefault((route, reason), []).append(size)
            else:
                openers[f"{label}/{route}"] = partial(open_session, route, case)
        if f"{label}/{OURS}" not in openers:
            raise RuntimeError(f"there is nothing to compare: {refusals or f'{name} was not exported'}")
        openers[f"{label}/{ITSELF}"] = partial(open_session, OURS, case)
        seconds |= time_openings(openers, rounds=64, most_seconds=3.0)
    operators = {
        route: _operators(files[route]) for route in files if any(key.endswith(f"/{route}") for key in seconds)
    }
    left_out = [
        f"{name}, {route}, {' and '.join(sizes)}: the file cannot be run: {reason}"
        for (route, reason), sizes in refusals.items()
    ]
    return {"seconds": seconds, "operators": operators, "left out": left_out}


def _feed(session: Any, given: Any) -> dict[str, Any]:
    """Returns the inputs in the layout of the file: PyTorch has channels first in images and sound."""
    feed = {}
    for each in session.get_inputs():
        if each.name not in given and "images" not in given:
            raise ValueError(f"it asks for {each.name!r}, which the model does not take")
        value = given.get(each.name, given.get("images"))
        if value.ndim > 2 and each.shape[1] == value.shape[-1]:
            value = np.ascontiguousarray(np.moveaxis(value, -1, 1))
        feed[each.name] = value.astype(_DTYPES[each.type])
    return feed


def _operators(file: Path) -> list[int]:
    import onnx

    def count(graph: Any) -> list[str]:
        bodies = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
        return [node.op_type for node in graph.node] + [each for body in bodies for each in count(body)]

    model = onnx.load(file, load_external_data=False)
    found = [name for name in count(model.graph) if name != "Constant"]
    return [len(found), found.count("Transpose")]
