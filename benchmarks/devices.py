"""Counts the models that `export_litert(target="gpu")` writes and LiteRT.js runs: keras.applications, keras-hub."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.markdown_cells import table

GROUPS = ("keras.applications", "keras-hub")
RUNTIMES = {"litertjs[wasm]": "WebAssembly", "litertjs[webgpu]": "WebGPU"}
_EQUAL, _PARTLY = "equal", "equal, and WebAssembly computes a part"
_LENGTH = 16  # the least length of a text or a sound
_PATIENCE = 120.0  # seconds in which a runtime opens a file, or answers
_SHOWN = 300  # characters of a reason


def rows() -> dict[str, Callable[[Path], Mapping[str, Any]]]:
    """Returns a function for each model, which exports the model to a folder and returns the result."""
    from tests.export.hub.tasks import BACKBONES
    from tests.export.zoo.applications import NAMES

    return {
        **{f"{GROUPS[0]} / {name}": partial(_application, name) for name in NAMES},
        **{f"{GROUPS[1]} / {name}": partial(_backbone, recipe) for name, recipe in BACKBONES.items()},
    }


def _application(name: str, folder: Path) -> Mapping[str, Any]:
    from tests.export.zoo.applications import make

    return _measure(make(name, "fixed"), folder, None, {})


def _backbone(recipe: Any, folder: Path) -> Mapping[str, Any]:
    import keras

    from keras_pe.export import Border, model_signature
    from keras_pe.export.model.sizes.dimensions import Kind, spread

    keras.utils.set_random_seed(0)
    model, given = recipe.make(), recipe.signature
    signature = model_signature(model, given, sizes=recipe.sizes)
    # LiteRT.js takes no bool.
    numbers = {spec.name: "int32" for spec in signature.inputs if spec.dtype == "bool"}
    if numbers:
        model, given = Border(dtypes=numbers).around(model, given), None
    sizes = spread(signature.dimensions, 1, _LENGTH, 1)
    # An export fixes all batches together, under one name.
    kept = {name: (size,) for name, size in sizes.items() if signature.dimensions[name].kind is not Kind.BATCH}
    return _measure(model, folder, given, kept)


def _measure(model: Any, folder: Path, signature: Any, sizes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any]:
    """Exports a model, and runs the file in LiteRT.js. The export itself compares the file on LiteRT's CPU."""
    from keras_pe.export import ExportError, export_litert
    from keras_pe.export.artifacts.litert_operators import read_operators
    from keras_pe.export.formats.litert_devices import has_unknown_sizes

    try:
        file = folder / "model.tflite"
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
    counts = []
    for group in GROUPS:
        own = [each for name, each in results.items() if name.startswith(f"{group} / ")]
        verdicts = [[each["runtimes"][name] for each in own if "runtimes" in each] for name in RUNTIMES]
        ran = [f"{each.count(_EQUAL)} of {len(each)}" for each in verdicts]
        agreed = sum({*each.get("runtimes", {"": ""}).values()} <= {_EQUAL, _PARTLY} for each in own)
        written = sum(each["verdict"] == "written" for each in own)
        counts.append((group, str(len(own)), str(written), *ran, str(agreed)))
    refused: list[tuple[str, str]] = []
    others: dict[str, list[str]] = {}
    for key, each in results.items():
        name = key.partition(" / ")[2]
        for runtime, verdict in each.get("runtimes", {}).items():
            if verdict != _EQUAL:
                others.setdefault(f"{RUNTIMES[runtime]}: {verdict}", []).append(name)
        if each["verdict"] != "written":
            kinds: dict[str, list[str]] = {}
            for kind, why in each.get("reasons", {"": each["verdict"]}).items():
                kinds.setdefault(why, []).append(kind)
            reasons = [f"{', '.join(own)}: {why}" if any(own) else why for why, own in kinds.items()]
            refused.append((name, " ".join(reasons)))
    tables = [
        table(("models", "tried", "written", *(f"whole on {place}" for place in RUNTIMES.values()), "equal"), counts),
        table(("not written", "reasons"), refused),
        table(("in LiteRT.js", "models"), ((verdict, ", ".join(names)) for verdict, names in others.items())),
    ]
    return "\n\n".join(tables)
