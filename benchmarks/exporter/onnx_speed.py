"""How fast an exported model runs in ONNX Runtime beside what the other exporters make of it.

These are Keras' own export of the same model and, where `transformers` has the architecture and is installed, both of
PyTorch's exporters. Each file is written in a process of its own, so that no exporter changes another; then they take
turns on one thread. Beside the time stands what the files are made of: operators, and transpositions among them.

    python -m benchmarks.exporter.onnx_speed [model]...
"""

import json
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.exporter.models import BUILDERS, CASES, trained
from benchmarks.measuring import in_own_process, interleaved

_DTYPES = {"tensor(float)": "float32", "tensor(int32)": "int32", "tensor(int64)": "int64", "tensor(bool)": "bool"}
ROUTES = ("keras_pe", "keras", "torch", "torchscript")


def measure(names: list[str] | None = None) -> dict[str, Any]:
    """Returns the seconds of each run by `model, batch x size/route`, and the counts of operators."""
    seconds: dict[str, list[float]] = {}
    operators: dict[str, dict[str, list[int]]] = {}
    left_out: list[str] = []
    for name in names or BUILDERS:
        with tempfile.TemporaryDirectory() as folder:
            for route in ROUTES:
                backend = "torch" if route.startswith("torch") else "tensorflow"  # it dies with both in one process
                try:
                    in_own_process("benchmarks.exporter.onnx_speed", ["export", name, route, folder], backend=backend)
                except RuntimeError as error:
                    reasons = [line for line in str(error).splitlines() if "Error" in line] or ["its process died"]
                    left_out.append(f"{name}, {route}: {reasons[-1]}")
            found = in_own_process("benchmarks.exporter.onnx_speed", ["run", name, folder], threads=1)
        seconds |= found["seconds"]
        operators[name] = found["operators"]
    return {"seconds": seconds, "operators": operators, "left out": left_out}


def export(name: str, route: str, folder: Path) -> None:
    """Writes the file of one route, where that has the model."""
    path = folder / f"{route}.onnx"
    if route.startswith("torch"):
        if find_spec("transformers") is None:
            return
        from benchmarks.exporter import in_torch

        if name in in_torch.BUILDERS:
            in_torch.export(name, route == "torch", path)
    elif route == "keras":
        trained(name).export(path, format="onnx", verbose=False)
    else:
        from keras_pe.export import export_onnx

        export_onnx(trained(name), path)


def run(name: str, folder: Path) -> dict[str, Any]:
    """Returns the seconds of a run of each file on each case, and the numbers of its operators and transpositions."""
    from benchmarks.speed.in_onnxruntime import session

    files = {route: folder / f"{route}.onnx" for route in ROUTES if (folder / f"{route}.onnx").is_file()}
    sessions = {route: session(file.read_bytes()) for route, file in files.items()}
    seconds: dict[str, list[float]] = {}
    feeds = BUILDERS[name][1]
    for case in CASES[feeds]:
        given = feeds(*case)
        label = f"{name}, {' x '.join(map(str, case))}"
        runs = {f"{label}/{route}": partial(each.run, None, _feed(each, given)) for route, each in sessions.items()}
        seconds |= interleaved(runs, rounds=31)
    return {"seconds": seconds, "operators": {route: _operators(file) for route, file in files.items()}}


def _feed(session: Any, given: Any) -> dict[str, Any]:
    """Returns what a file takes, as it takes it: PyTorch has the channels of images, and of sound, first."""
    feed = {}
    for each in session.get_inputs():
        value = given.get(each.name, given.get("images"))
        if value.ndim == 4 and each.shape[1] == 3:
            value = value.transpose(0, 3, 1, 2)
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


def main() -> None:
    """Prints a line for each model and case; within does one process' part."""
    if sys.argv[1:2] == ["export"]:
        name, route, folder = sys.argv[2:]
        print(json.dumps(export(name, route, Path(folder))))
        return
    if sys.argv[1:2] == ["run"]:
        name, folder = sys.argv[2:]
        print(json.dumps(run(name, Path(folder))))
        return
    for name in sys.argv[1:] or BUILDERS:
        found = measure([name])
        medians = {key: median(values) for key, values in found["seconds"].items()}
        for label in dict.fromkeys(key.rpartition("/")[0] for key in medians):
            ours = medians[f"{label}/keras_pe"]
            others = {route: medians.get(f"{label}/{route}") for route in ROUTES[1:]}
            told = ", ".join(f"{route} {ours / other:.2f}" for route, other in others.items() if other)
            print(f"{label:28} {ours * 1e3:8.2f} ms; over that of {told}")
        print(
            f"{'':28} operators, transpositions: {found['operators'][name]}", *found["left out"], sep="\n", flush=True
        )


if __name__ == "__main__":
    main()
