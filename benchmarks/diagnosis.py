"""Measures the diagnosis: each planted fault of the tests and of the gallery in a row, with its verdict and seconds."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.markdown_cells import table
from benchmarks.measuring import ROOT

Find = Callable[[Path], Callable[[], Sequence[Any]]]
"""Plants a fault in a folder, and returns a function that returns the findings."""
VERDICTS = ("hit", "vague", "unknown", "wrong")
_AMPLE = 500.0  # seconds for one diagnosis
_RUNTIMES = {"onnx": "onnxruntime[disabled]", "tf_saved_model": "tensorflow", "litert": "litert"}


def judge(expected: Sequence[Any], found: Sequence[Mapping[str, Any]]) -> str:
    """Returns the verdict on findings.

    Args:
        expected: The cause and the layer (None for any), or the file and a list of its lines.
        found: The findings with `cause`, `layer`, `file` and `line`.
    """
    target, where = expected
    if isinstance(where, list):
        placed = [each for each in found if each["file"]]
        lines = [each["line"] for each in placed if each["line"] is not None]
        if any(each["file"] != target for each in placed) or not set(lines) <= set(where):
            return "wrong"
        named = [True] * len(lines)
        is_vague = bool(placed) or any(each["cause"] != "unknown" for each in found)
    else:
        named = [each["cause"] == target and where in (None, each["layer"]) for each in found]
        is_vague = any(named)
    if named and all(named):
        return "hit"
    if is_vague:
        return "vague"
    return "unknown" if all(each["cause"] == "unknown" for each in found) else "wrong"


def rows() -> dict[str, Callable[[Path], dict[str, Any]]]:
    """Returns a function for each planted fault, which plants it in a folder and returns the result."""
    sys.path[:0] = [str(ROOT / "docs")]  # the gallery imports its parts from there
    from gallery import SHOWN

    from tests.export.parity.diagnosis import test_catalogue, user_faults
    from tests.export.parity.diagnosis.sites import (
        test_attributes,
        test_configurations,
        test_directions,
        test_inputs,
        test_planted,
        test_position_layers,
    )
    from tests.export.parity.planted_positions import FAULTS

    found: dict[str, Callable[[Path], dict[str, Any]]] = {}

    def add(group: str, name: str, target: Any, place: Any, find: Find) -> None:
        found[f"{group} / {name}"] = partial(_measure, (str(target), place), find)

    for code in user_faults.CODE_FAULTS:
        for form in _RUNTIMES:
            add(f"user's code, {form}", str(code), code.file, sorted(code.lines), partial(_code, code, form))
    for fault in test_catalogue.ONNX_FAULTS:
        add("catalogue", fault.name, fault.cause, fault.layer, partial(_catalogue, fault))
    plants: dict[str, Any] = {}
    for plant, planted, _ in test_planted.PLANTS:
        number = sum(each == planted for _, each in plants.values()) + 1
        plants[f"{planted} {number}"] = plant, planted
    for module in (test_configurations, test_position_layers):
        plants |= {name: each[:2] for name, each in {**module.QUICK, **module.SLOW}.items()}
    for name, (plant, planted) in plants.items():
        add("calls of layers", name, planted, "y", partial(_find_planted, plant))
    for change in (*test_attributes.CHANGES, *test_inputs.CHANGES):
        add("changed layers", change.name, change.cause, change.layer, partial(_change, change, False))
    for change in test_attributes.CHANGES:
        add("files of Keras", change.name, change.cause, change.layer, partial(_change, change, True))
    for number, change in enumerate(test_directions.CHANGES):
        group = "files of Keras" if change.by_keras else "changed layers"
        find = partial(_change, change, change.by_keras)
        add(group, f"{number}: {change.name}", change.cause, change.layer, find)
    for name, (build, layer, cause, _) in FAULTS.items():
        for form in ("onnx", "litert"):
            add(f"positions, {form}", name, cause, layer, partial(_positions, build, form))
    for cause, example in SHOWN.items():
        add("gallery", str(cause), cause, None, partial(_gallery, example))
    return found


def _check(model: Any, path: Path, runtime: str) -> Sequence[Any]:
    from keras_pe.export import check_parity

    return check_parity(model, path, runtimes=[runtime], diagnosis_seconds=_AMPLE).results[0].findings


def _code(fault: Any, form: str, folder: Path) -> Callable[[], Sequence[Any]]:
    model, path = fault.plant(form, folder)
    return partial(_check, model, path, _RUNTIMES[form])


def _catalogue(fault: Any, folder: Path) -> Callable[[], Sequence[Any]]:
    from keras_pe.export import export_onnx
    from tests.export.parity.diagnosis.faults import build

    model = build()
    sound = export_onnx(model, folder / "sound.onnx").path
    return partial(_check, model, fault.plant(sound, folder / "faulty.onnx"), "onnxruntime[all]")


def _find_planted(plant: Any, folder: Path) -> Callable[[], Sequence[Any]]:
    from tests.export.parity.diagnosis.planted import findings

    return partial(findings, *plant())


def _change(change: Any, by_keras: bool, folder: Path) -> Callable[[], Sequence[Any]]:
    from dataclasses import replace

    from tests.export.parity.diagnosis.changes import say, write

    model, path = write(replace(change, by_keras=by_keras), folder)
    return lambda: say(model, path, _worker()).findings


@cache
def _worker() -> Any:
    from keras_pe.export.runtimes.registry import find_runtimes
    from keras_pe.export.runtimes.worker import Worker

    return Worker(find_runtimes("onnxruntime[disabled]")[0], timeout=120)


def _positions(build: Any, form: str, folder: Path) -> Callable[[], Sequence[Any]]:
    from tests.export.parity.diagnosis.user_faults import EXPORTERS
    from tests.export.parity.planted_positions import attention

    export, name = EXPORTERS[form]
    export(build(), folder / name)
    return partial(_check, attention(), folder / name, {**_RUNTIMES, "onnx": "onnxruntime[all]"}[form])


def _gallery(example: Any, folder: Path) -> Callable[[], Sequence[Any]]:
    model = example.make(folder / "model.onnx")
    return lambda: getattr(example.check(model, folder / "model.onnx"), "findings", ())


def _measure(expected: Sequence[Any], plant: Find, folder: Path) -> dict[str, Any]:
    find = plant(folder)
    begin = time.perf_counter()
    found = [
        {"cause": str(each.cause), "layer": each.layer, "file": each.file and Path(each.file).name, "line": each.line}
        for each in find()
    ]
    seconds = round(time.perf_counter() - begin, 1)
    return {"expected": list(expected), "found": found, "verdict": judge(expected, found), "seconds": seconds}


def render(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the totals of each group, and each row that is not a hit."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for key, each in results.items():
        groups.setdefault(key.partition(" / ")[0], []).append(each)
    totals = []
    for group, own in {**groups, "**all**": list(results.values())}.items():
        counts = [str(sum(each["verdict"] == verdict for each in own)) for verdict in VERDICTS]
        totals.append((group, str(len(own)), *counts, f"{statistics.median(each['seconds'] for each in own):.1f}"))
    missed = [
        (
            f"`{key}`",
            ", ".join(str(part) for part in each["expected"] if part),
            "; ".join(map(_describe, each["found"])) or "nothing",
            each["verdict"],
        )
        for key, each in results.items()
        if each["verdict"] != "hit"
    ]
    return "\n\n".join(
        [
            table(("group", "rows", *VERDICTS, "median s"), totals),
            "## Rows that are not hit",
            table(("fault", "expected", "found", "verdict"), missed),
        ]
    )


def _describe(finding: dict[str, Any]) -> str:
    """Returns the cause of a finding, with its layer if it has one."""
    return f"{finding['cause']} in {finding['layer']}" if finding["layer"] else str(finding["cause"])
