"""Stores measurements: times and bytes as a pyperf suite, the rest in a file beside it, and tables row by row.

pyperf keeps every value, and its commands (`stats`, `hist`, `compare_to`) read the files. Its runner is not used: its
contestants would not take turns.
"""

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pyperf

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("keras", "keras-hub", "numpy", "tensorflow", "onnxruntime", "tf2onnx", "jax", "torch")


def save(part: str, seconds: dict[str, list[float]], sizes: dict[str, int], beside: dict[str, Any]) -> None:
    """Writes the measurements of one part of the figures, and replaces its previous ones."""
    units: dict[str, tuple[str, list[Any]]] = {name: ("second", each) for name, each in seconds.items()}
    units |= {name: ("byte", [size]) for name, size in sizes.items()}
    if units:
        suite = pyperf.BenchmarkSuite([_benchmark(name, *each) for name, each in units.items()])
        suite.dump(str(FOLDER / f"{part}.json"), compact=True, replace=True)
    stored = json.loads(_beside().read_text()) if _beside().exists() else {}
    _beside().write_text(json.dumps(stored | {part: beside}, indent=1) + "\n")


def load() -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Returns the values of each figure by name, in the order of their turns, and what stands beside them by part."""
    beside = json.loads(_beside().read_text())
    suites = [FOLDER / f"{part}.json" for part in beside]
    found = [pyperf.BenchmarkSuite.load(str(path)) for path in suites if path.exists()]
    return {each.get_name(): list(each.get_values()) for suite in found for each in suite}, beside


def load_rows(table: str) -> dict[str, Any]:
    """Returns the stored rows of a table by name."""
    file = FOLDER / f"{table}.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def complete_rows(table: str, rows: Mapping[str, Callable[[Path], Any]], seconds: float, chosen: str) -> bool:
    """Measures the rows that are not stored, and stores each at once. Remove a stored row to measure it again.

    Args:
        table: The table's name.
        rows: Measures each row of the table with files in a temporary folder.
        seconds: No row begins after this time.
        chosen: The beginning of the names of the rows to measure.

    Returns:
        Whether all chosen rows are stored.
    """
    end = time.monotonic() + seconds
    known = load_rows(table)
    left = [name for name in rows if name not in known and name.startswith(chosen)]
    while left and time.monotonic() < end:
        name = left.pop(0)
        with tempfile.TemporaryDirectory() as folder:
            known[name] = rows[name](Path(folder))
        print(name, known[name], flush=True)
        lines = [f"{json.dumps(each)}: {json.dumps(known[each])}" for each in rows if each in known]
        (FOLDER / f"{table}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return not left


def _beside() -> Path:
    return FOLDER / "beside.json"


def machine(shared: bool) -> dict[str, Any]:
    """Returns what was measured on."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    return {
        "processor": next(line.split(":")[1].strip() for line in info if line.startswith("model name")),
        "cores": len(os.sched_getaffinity(0)),
        "shared": shared,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _benchmark(name: str, unit: str, values: list[Any]) -> pyperf.Benchmark:
    run = pyperf.Run(values, metadata={"name": name, "unit": unit}, collect_metadata=False)
    return pyperf.Benchmark([run])
