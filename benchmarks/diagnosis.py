"""Measures the diagnosis: each planted fault of the tests and of the gallery in a row, with its verdict and seconds.

    python -m benchmarks.diagnosis [--seconds 360] [--group NAME]

measures the rows that `results/diagnosis.json` lacks, within the seconds, and writes `docs/diagnosis.md`. The exit code
is 3 if rows are left. Remove the results of a row to measure it again.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "diagnosis.json", ROOT / "docs" / "diagnosis.md"
VERDICTS = ("hit", "vague", "unknown", "wrong")
_AMPLE = 500.0  # seconds for one diagnosis
_RUNTIMES = {"onnx": "onnxruntime[disabled]", "tf_saved_model": "tensorflow", "litert": "litert"}

_INTRODUCTION = """\
<!-- Written by python -m benchmarks.diagnosis, which measures what it shows. -->
# How often a diagnosis is right

Each row of `benchmarks/results/diagnosis.json` is one planted fault, checked on its own. The faults are those of the
tests and of the [gallery](gallery.md). In a user's code, the planted line must be named, in other groups the cause and
the layer.

- **hit**: the fault is named, and nothing else.
- **vague**: the fault is named beside others, or only its layer or file is named.
- **unknown**: no cause is named.
- **wrong**: another line, or another cause, is named.

The seconds are those of a whole check, on a machine with other work.
"""


@dataclass(frozen=True)
class Row:
    """A planted fault.

    Attributes:
        group: The kind of the fault.
        name: The fault.
        expected: The cause and the layer, or the file and its lines.
        find: Plants the fault in a folder, and returns a function that returns the findings.
    """

    group: str
    name: str
    expected: Sequence[Any]
    find: Callable[[Path], Callable[[], Sequence[Any]]]


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


def rows() -> Iterator[Row]:
    """Yields every planted fault."""
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

    for code in user_faults.CODE_FAULTS:
        for form in _RUNTIMES:
            yield Row(f"user's code, {form}", str(code), (code.file, sorted(code.lines)), partial(_code, code, form))
    for fault in test_catalogue.ONNX_FAULTS:
        yield Row("catalogue", fault.name, (fault.cause, fault.layer), partial(_catalogue, fault))
    plants = {f"{number}: {cause}": (plant, cause) for number, (plant, cause, _) in enumerate(test_planted.PLANTS)}
    for module in (test_configurations, test_position_layers):
        plants |= {name: each[:2] for name, each in {**module.QUICK, **module.SLOW}.items()}
    for name, (plant, planted) in plants.items():
        yield Row("calls of layers", name, (planted, "y"), partial(_find_planted, plant))
    for change in (*test_attributes.CHANGES, *test_inputs.CHANGES):
        yield Row("changed layers", change.name, (change.cause, change.layer), partial(_change, change, False))
    for change in test_attributes.CHANGES:
        yield Row("files of Keras", change.name, (change.cause, change.layer), partial(_change, change, True))
    for number, change in enumerate(test_directions.CHANGES):
        group = "files of Keras" if change.by_keras else "changed layers"
        expected = (change.cause, change.layer)
        yield Row(group, f"{number}: {change.name}", expected, partial(_change, change, change.by_keras))
    for name, (build, layer, cause, _) in FAULTS.items():
        for form in ("onnx", "litert"):
            yield Row(f"positions, {form}", name, (cause, layer), partial(_positions, build, form))
    for cause, example in SHOWN.items():
        yield Row("gallery", str(cause), (str(cause), None), partial(_gallery, example))


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

    from tests.export.parity.diagnosis.changes import say

    return lambda: say(replace(change, by_keras=by_keras), folder, _worker()).findings


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


def measure(row: Row) -> dict[str, Any]:
    """Returns the findings, the verdict and the seconds of a row."""
    with tempfile.TemporaryDirectory() as folder:
        find = row.find(Path(folder))
        begin = time.perf_counter()
        found = find()
    seconds = round(time.perf_counter() - begin, 1)
    findings = [
        {"cause": str(each.cause), "layer": each.layer, "file": each.file and Path(each.file).name, "line": each.line}
        for each in found
    ]
    return {
        "expected": list(row.expected),
        "found": findings,
        "verdict": judge(row.expected, findings),
        "seconds": seconds,
    }


def render(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the page: the totals of each group, and each row that is not a hit."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for key, each in results.items():
        groups.setdefault(key.partition(" / ")[0], []).append(each)
    lines = [_INTRODUCTION, f"| group | rows | {' | '.join(VERDICTS)} | median s |", "| --- " * 7 + "|"]
    for group, rows_found in {**groups, "**all**": list(results.values())}.items():
        counts = [str(sum(each["verdict"] == verdict for each in rows_found)) for verdict in VERDICTS]
        seconds = statistics.median(each["seconds"] for each in rows_found)
        lines.append(f"| {group} | {len(rows_found)} | {' | '.join(counts)} | {seconds:.1f} |")
    lines += ["", "## Rows that are not hit", "", "| fault | expected | found | verdict |", "| --- " * 4 + "|"]
    for key, each in results.items():
        if each["verdict"] != "hit":
            target, where = each["expected"]
            expected = f"{target}, {where}" if where else target
            described = "; ".join(map(_describe, each["found"])) or "nothing"
            lines.append(f"| `{key.replace('|', '/')}` | {expected} | {described} | {each['verdict']} |")
    return "\n".join(lines) + "\n"


def _describe(finding: dict[str, Any]) -> str:
    """Returns the cause of a finding, with its layer if it has one."""
    return f"{finding['cause']} in {finding['layer']}" if finding["layer"] else str(finding["cause"])


def main() -> None:
    """Measures the rows that are left, and writes the results and the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diagnosis", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no row after this time")
    parser.add_argument("--group", default="", help="only groups whose names begin so")
    asked = parser.parse_args()
    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    end = time.monotonic() + asked.seconds
    every = {f"{row.group} / {row.name}": row for row in rows()}
    for key, row in every.items():
        if key not in stored and row.group.startswith(asked.group):
            if time.monotonic() > end:
                break
            stored[key] = measure(row)
    kept = {key: stored[key] for key in every if key in stored}
    RESULTS.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in kept.items()) + "\n}\n")
    PAGE.write_text(render(kept))
    sys.exit(3 if len(kept) < len(every) else 0)


if __name__ == "__main__":
    main()
