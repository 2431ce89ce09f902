"""Counts the models that `export_litert(target="gpu")` writes and LiteRT.js runs: keras.applications, keras-hub.

    python -m benchmarks.devices [--seconds 360] [--name NAME]

measures the rows that `results/devices.json` lacks, within the seconds, and writes the table of docs/how-to/litert.md.
The exit code is 3 if rows are left. Remove the results of a row to measure it again.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "devices.json", ROOT / "docs" / "how-to" / "litert.md"
BEGIN, END = "<!-- models: written by python -m benchmarks.devices -->", "<!-- end of models -->"
GROUPS = ("keras.applications", "keras-hub")
RUNTIMES = {"litertjs[wasm]": "WebAssembly", "litertjs[webgpu]": "WebGPU"}
_EQUAL, _PARTLY = "equal", "equal, and WebAssembly computes a part"
_LENGTH = 16  # the least length of a text or a sound
_PATIENCE = 120.0  # seconds in which a runtime opens a file, or answers
_SHOWN = 300  # characters of a reason


def rows() -> dict[str, Callable[[Path], Mapping[str, Any]]]:
    """Returns a function for each model, which exports the model to a file and returns the result."""
    from tests.export.hub.tasks import BACKBONES
    from tests.export.zoo.applications import NAMES

    found: dict[str, Callable[[Path], Mapping[str, Any]]] = {}
    found |= {f"{GROUPS[0]} / {name}": partial(_application, name) for name in NAMES}
    return found | {f"{GROUPS[1]} / {name}": partial(_backbone, recipe) for name, recipe in BACKBONES.items()}


def _application(name: str, file: Path) -> Mapping[str, Any]:
    from tests.export.zoo.applications import build

    return _measure(build(name, "fixed"), file, None, {})


def _backbone(recipe: Any, file: Path) -> Mapping[str, Any]:
    import keras

    from keras_pe.export import model_signature
    from keras_pe.export.model.sizes.dimensions import Kind, spread

    keras.utils.set_random_seed(0)
    model = recipe.make()
    signature = model_signature(model, recipe.signature, sizes=recipe.sizes)
    sizes = spread(signature.dimensions, 1, _LENGTH, 1)
    # An export fixes all batches together, under one name.
    kept = {name: (size,) for name, size in sizes.items() if signature.dimensions[name].kind is not Kind.BATCH}
    return _measure(model, file, recipe.signature, kept)


def _measure(model: Any, file: Path, signature: Any, sizes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any]:
    """Exports a model, and runs the file in LiteRT.js. The export itself compares the file on LiteRT's CPU."""
    from keras_pe.export import ExportError, export_litert
    from keras_pe.export.artifacts.litert_operators import read_operators
    from keras_pe.export.formats.litert_devices import has_unknown_sizes

    try:
        artifact = export_litert(model, file, input_signature=signature, sizes=sizes, target="gpu")
    except (ExportError, ValueError) as error:
        broken = {kind: why for layer in getattr(error, "layers", ()) for kind, why in layer.reasons.items()}
        reason = getattr(error, "reason", str(error))
        return {"verdict": "refused", "reasons": broken or {"": reason[:_SHOWN]}}
    operators = read_operators(artifact.path.read_bytes())
    verdict = "unknown sizes" if has_unknown_sizes(operators) else "written"
    return {"verdict": verdict, "operators": len(operators), "runtimes": _run(model, artifact, signature, sizes)}


def _run(model: Any, artifact: Any, signature: Any, kept: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Returns `_EQUAL`, `_PARTLY`, or the reason why the file does not run or differs from Keras, by runtime."""
    from keras_pe.export import model_signature
    from keras_pe.export.comparison.references.keras import KerasReference

    shapes = {spec.name: spec.shape for spec in artifact.inputs}
    free = model_signature(model, signature, sizes=kept)
    sizes = {str(dim): shapes[spec.name][axis] for spec in free.inputs for axis, dim in enumerate(spec.shape)}
    reference = KerasReference(model, free.fix_sizes(sizes))
    return {name: _compare(name, artifact.path, reference) for name in RUNTIMES}


def _compare(name: str, file: Path, reference: Any) -> str:
    from keras_pe.export import ExportError
    from keras_pe.export.artifacts.artifact import Format
    from keras_pe.export.pipeline.smoke_test import check_artifact
    from keras_pe.export.runtimes.registry import find_runtimes

    with _browser()() as browser:
        try:
            check_artifact(file, browser, reference, Format.LITERT, spec=find_runtimes(name)[0])
        except ExportError as error:
            return getattr(error, "reason", str(error))[:_SHOWN]
        whole = name.endswith(f"[{next(iter(browser.providers))}]")
    return _EQUAL if whole else _PARTLY


@cache
def _browser() -> Any:
    """Returns a function that lends a process with a browser, which all models share."""
    from keras_pe.export.runtimes.shared_workers import Lender

    return Lender(next(iter(RUNTIMES)), _PATIENCE)


def render(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the tables of the page: the counts of each group, then the models that are refused or differ."""
    titles = ["models", "tried", "written", *(f"equal on {place}" for place in RUNTIMES.values())]
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for group in GROUPS:
        own = [each for name, each in results.items() if name.startswith(f"{group} / ")]
        cells = [group, str(len(own)), str(sum(each["verdict"] == "written" for each in own))]
        for name in RUNTIMES:
            verdict = [each["runtimes"][name] for each in own if "runtimes" in each]
            cells.append(f"{verdict.count(_EQUAL)} of {len(verdict)}")
        lines.append(f"| {' | '.join(cells)} |")
    refused = {name: each for name, each in results.items() if each["verdict"] != "written"}
    lines += ["", "| not written | reasons |", "| --- | --- |"] * bool(refused)
    for name, each in refused.items():
        kinds: dict[str, list[str]] = {}
        for kind, why in each.get("reasons", {"": each["verdict"]}).items():
            kinds.setdefault(why, []).append(kind)
        reasons = [f"{', '.join(own)}: {why}" if any(own) else why for why, own in kinds.items()]
        lines.append(_row(name, " ".join(reasons)))
    others: dict[str, list[str]] = {}
    for name, each in results.items():
        for runtime, verdict in each.get("runtimes", {}).items():
            if verdict != _EQUAL:
                others.setdefault(f"{RUNTIMES[runtime]}: {verdict}", []).append(name.partition(" / ")[2])
    lines += ["", "| in LiteRT.js | models |", "| --- | --- |"] * bool(others)
    return "\n".join([*lines, *(_row(verdict, ", ".join(names)) for verdict, names in others.items())])


def _row(name: str, text: str) -> str:
    return f"| {name.partition(' / ')[2] or name} | {text.replace('|', '/')} |"


def page() -> str:
    """Returns the page with the table of the stored results."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n{render(json.loads(RESULTS.read_text()))}\n{END}{rest.partition(END)[2]}"


def _is_measured(row: Mapping[str, Any]) -> bool:
    return "runtimes" in row or row.get("verdict") == "refused"


def main() -> None:
    """Measures rows until the seconds are over, and stores each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--name", default="", help="Measure the rows alone whose names contain it.")
    arguments = parser.parse_args()
    end = time.perf_counter() + arguments.seconds
    known = rows()
    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    left = [name for name in known if arguments.name in name and not _is_measured(stored.get(name, {}))]
    while left and time.perf_counter() < end:
        name = left.pop(0)
        with tempfile.TemporaryDirectory() as folder:
            stored[name] = known[name](Path(folder) / "model.tflite")
        print(name, stored[name], flush=True)
        kept = {name: stored[name] for name in known if name in stored}
        RESULTS.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in kept.items()) + "\n}\n")
    PAGE.write_text(page())
    sys.exit(3 if left else 0)


if __name__ == "__main__":
    main()
