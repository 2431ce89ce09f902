"""Renders the results into docs/benchmarks.md and between the markers of other pages."""

import re
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks import devices, diagnosis
from benchmarks.decoder import NEW
from benchmarks.exporter.exporter_tables import Values, exported_models, exporter, ratios_to_fastest
from benchmarks.markdown_cells import byte_count, error_size, milliseconds, table, two_decimals, two_digits
from benchmarks.measurement_files import load, load_rows
from benchmarks.measuring import ROOT, quotient

PARTS = ("accuracy", "onnxruntime", "tensorflow", "jax", "torch", "rotary", "costs", "exporter", "quantize", "decoder")
MARKED = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
BASE = "tensor2tensor"
CONTESTANTS = ("keras-hub", "keras_pe", "keras_pe, max_length", "one composition", "ready rows")
ROTARY_BASE = "plain formula"
ROTARY = ("one product, as a layer", "plain formula, as a layer", "keras-hub", "keras_pe", "keras_pe, max_length")
TITLES = {
    "range": "Positions 0, 1, 2, ...",
    "static": "The same, the shape known when the graph is traced",
    "positions": "Positions given",
    "start": "A start given, one number",
    "starts": "A start given for each example",
}


_EXACT = "512 channels, against float64:"
_HALF = "The first 2,048 positions in half precision: largest error, and how many rows are distinct:"
_EVERYWHERE = "The shape in brackets is batch and length; `-` where it was not measured:"
_ROTARY = """\
Queries of so many heads of so many channels, turned by positions from 0 on; `step` is one token of 32 heads of 128
channels from a start that is an input, as of a decoder with a cache. One thread, sizes left open, relative to the plain
formula, which takes sines and cosines of float32 angles and is a function here. The first two columns tell what of a
time is Keras' own call of a layer: of one that turns nothing, and of one that computes the plain formula."""
_TABLES = """\
The layer's tables are in the file, and that is what buys exactness without a sine; equal layers share them.
`max_length=n` makes them n rows of 4 bytes a channel, 1.0 MB for 512 rows of 512 channels: where the file has to be
small, give the length that is needed. Beyond 8,192 rows they are composed of fewer."""


def render(text: str, values: Values, beside: dict[str, Any]) -> str:
    """Returns the text with what stands between its markers rendered anew.

    Raises:
        KeyError: If a marker names no block.
    """
    return MARKED.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](values, beside)}\n{found[3]}", text)


def write() -> None:
    """Renders the stored results into the pages."""
    figures = load()
    for name in PAGES:
        path = ROOT / name
        path.write_text(render(path.read_text(), *figures))
    (ROOT / "docs" / "benchmarks.md").write_text(page(*figures))


def page(values: Values, beside: dict[str, Any]) -> str:
    """Returns docs/benchmarks.md."""
    parts = [
        "# Every figure\n\nRendered by `python -m benchmarks`, which measures them: do not edit. Times are relative to "
        "tensor2tensor's formula in the same runtime,\nmedians of the ratios of runs that took turns. "
        + machine(values, beside)
    ]
    parts += ["## How exact", _EXACT, accuracy(values, beside), _HALF, half_precision(values, beside)]
    parts += ["## The layer in every runtime", _EVERYWHERE, runtimes(values, beside)]
    speeds = [name.split("/") for name in values if name.count("/") == 4]
    for mode, threads in dict.fromkeys((mode, threads) for mode, threads, *_ in speeds):
        parts.append(f"## {mode}, {threads} thread{'s' * (threads != '1')}")
        for scenario, title in TITLES.items():
            if any(each[:3] == [mode, threads, scenario] for each in speeds):
                parts.append(f"{title}:\n\n{_by_shape(values, mode, threads, scenario)}")
    parts += ["## Rotary positions", _ROTARY, *rotary(values)]
    parts += ["## What it adds to a model", costs(values, beside), _TABLES, identify(values, beside)]
    if "exporter" in beside:
        parts += ["## The exporter", exporter(values, beside)]
    left_out = [f"{part}: not measured yet." for part in PARTS if part not in beside]
    left_out += [each for part in beside.values() for each in part.get("left out", [])]
    if left_out:
        parts += ["## Left out", "\n".join(f"- {each}" for each in left_out)]
    return "\n\n".join(parts) + "\n"


def accuracy(values: Values, beside: dict[str, Any]) -> str:
    """The largest error by the reach of the positions."""
    errors = beside["accuracy"]["figures"]["largest error below"]
    header = ("positions below", "tensor2tensor, float32", "timescales from float64, product in float32", "keras_pe")
    return table(header, ((f"{int(reach):,}", *map(error_size, each.values())) for reach, each in errors.items()))


def half_precision(values: Values, beside: dict[str, Any]) -> str:
    """Returns the table of half precision."""
    rows = (
        (f"`{policy}`", *(f"{error_size(error)}, {int(distinct):,} rows" for error, distinct in each.values()))
        for policy, each in beside["accuracy"]["figures"]["half precision"].items()
    )
    return table(("policy", "keras-hub `SinePositionEncoding`", "keras_pe"), rows)


def comparison(values: Values, beside: dict[str, Any]) -> str:
    """Returns the table of the README: keras_pe beside the tool that people use otherwise."""
    errors = beside["accuracy"]["figures"]["largest error below"]["131072"]
    rows = {
        name: int(rows) for name, (_, rows) in beside["accuracy"]["figures"]["half precision"]["mixed_bfloat16"].items()
    }
    counts = {name: each for name, each in beside["exporter"]["operators"].items() if "opset" not in name}
    run = sum("keras" in routes for routes in counts.values())
    ratios = [ratio for ratio, *_ in ratios_to_fastest(values).values()]
    lines = [
        (
            "largest error below position 131,072",
            "tensor2tensor's formula in float32",
            *(error_size(errors[each]) for each in (BASE, "keras_pe")),
        ),
        (
            "distinct rows of 2,048 positions in bfloat16",
            "keras-hub `SinePositionEncoding`",
            *(f"{rows[each]:,}" for each in ("keras-hub", "keras_pe")),
        ),
        (f"{len(counts)} networks: files that ONNX Runtime runs", "Keras' own ONNX export", str(run), str(len(counts))),
        (
            f"relative run time in ONNX Runtime, median of {len(ratios)} cases",
            "the fastest of all other exporters",
            "1",
            two_decimals(median(ratios)),
        ),
        ("tolerance of a check", "Polygraphy", "a number that you choose", "measured on the float64 model"),
        ("report of a difference", "Polygraphy", "the outputs that differ", "the first layer, and the cause"),
    ]
    return table(("question", "other tool", "its answer", "keras_pe"), lines)


def runtimes(values: Values, beside: dict[str, Any]) -> str:
    """This package in every runtime."""
    cases = {
        "range, (1, 2048)": "range/1x2048",
        "range, (8, 128)": "range/8x128",
        "positions, (32, 512)": "positions/32x512",
        "start, (1, 2048)": "start/1x2048",
        "starts, (32, 512)": "starts/32x512",
    }
    measured = dict.fromkeys(tuple(name.split("/")[:2]) for name in values if name.count("/") == 4)
    rows = (
        (f"{mode}, {threads}", *(_ratio(values, f"{mode}/{threads}/{case}", "keras_pe") for case in cases.values()))
        for mode, threads in measured
    )
    return table(("runtime, threads", *cases), rows)


def rotary(values: Values) -> list[str]:
    """Turning queries in each runtime."""
    cases = dict.fromkeys(name.rpartition("/")[0] for name in values if name.endswith(f"/{ROTARY_BASE}"))
    parts = []
    for mode in dict.fromkeys(case.split("/")[0] for case in cases):
        rows = [
            [*case.replace("x", ", ").split("/")[2:], *(_ratio(values, case, each, ROTARY_BASE) for each in ROTARY)]
            for case in cases
            if case.startswith(f"{mode}/")
        ]
        parts.append(f"{mode}:\n\n{table(('queries', 'batch, length', *ROTARY), rows)}")
    return parts


def costs(values: Values, beside: dict[str, Any]) -> str:
    """Bytes, times and memory, absolute."""
    whose = (BASE, "keras_pe", "keras_pe, max_length", "keras_pe, max_length=65536")
    rows = {
        "ONNX file": ("onnx", byte_count),
        "ONNX file, three equal layers": ("onnx, three layers", byte_count),
        "SavedModel, three equal layers": ("saved model, three layers", byte_count),
        "loaded by ONNX Runtime in": ("load", milliseconds),
        "layer built in": ("build", milliseconds),
        "memory of a call, positions given, (32, 512), `tf.function`": ("memory, TensorFlow, tf.function", byte_count),
        "memory of a call, positions given, (32, 512), eager": ("memory, TensorFlow, eager", byte_count),
    }
    header = ("cost", BASE, "keras_pe", "`max_length=8192`", "`max_length=65536`")
    lines = [
        (title, *(form(median(values[f"{key}/{each}"])) if f"{key}/{each}" in values else "" for each in whose))
        for title, (key, form) in rows.items()
        if f"{key}/keras_pe" in values
    ]
    return table(header, lines) if lines else "It was not measured yet."


def quantized_models(values: Values, beside: dict[str, Any]) -> str:
    """Returns a line for each file of each model."""
    header = ("model", "file", "bytes", "time", "rows changed", "bound", "error", "layers in float", "goal reached")
    lines = [
        (
            model,
            row["file"],
            byte_count(row["bytes"]),
            two_decimals(row["time"]),
            f"{row['changed']:,} of {row['rows']:,}" if row["decides"] else "-",
            f"{row['bound']:.2%}" if row["decides"] and row["bound"] is not None else "-",
            error_size(row["error"]),
            "-" if row["layers in float"] is None else str(row["layers in float"]),
            "yes" if row["passed"] else "no",
        )
        for model, rows in beside.get("quantize", {}).get("models", {}).items()
        for row in rows
    ]
    return table(header, lines) if lines else "Quantized files were not measured yet."


def decoders(values: Values, beside: dict[str, Any]) -> str:
    """Returns a line for each contestant of decoders: the time of a step by the cache's length, and tokens a second."""
    taken = {}
    for key, each in values.items():
        label, _, name = key.rpartition("/")
        if label.startswith("decoder "):
            taken[label, name] = each
    labels = list(dict.fromkeys(label for label, _ in taken))

    def cell(label: str, name: str) -> str:
        each = taken.get((label, name))
        if each is None:
            return "-"
        return f"{NEW / median(each):.0f}" if label.startswith("decoder text") else f"{median(each) * 1e3:.2f}"

    titles = [label.removeprefix("decoder ").replace("text", "tokens a second") for label in labels]
    names = dict.fromkeys(name for _, name in taken)
    lines = [(name, *(cell(label, name) for label in labels)) for name in names]
    return table(("contestant", *titles), lines) if lines else "Decoders were not measured yet."


def identify(values: Values, beside: dict[str, Any]) -> str:
    """How long `identify` takes."""
    shapes = [name.removeprefix("identify/") for name in values if name.startswith("identify/")]
    tables = {each: f"a table of ({each.replace('x', ', ')})" for each in shapes}
    times = (f"{median(values[f'identify/{each}']):.1f} s for {table}" for each, table in tables.items())
    return f"`identify` takes {' and '.join(times)}." if shapes else "`identify` was not measured yet."


def machine(values: Values, beside: dict[str, Any]) -> str:
    """Returns the sentence about the machine and the versions."""
    about = beside["onnxruntime"]["machine"]
    shared = ", shared with other work while it measured" if about["shared"] else ""
    measured = [part["machine"]["versions"] for part in beside.values() if "machine" in part]  # each in what it needed
    found = {name: version for versions in measured for name, version in versions.items() if version}
    versions = ", ".join(f"{name} {version}" for name, version in found.items())
    return f"{about['cores']} cores of {about['processor']}{shared}; Python {about['python']}, {versions}."


BLOCKS: dict[str, Callable[[Values, dict[str, Any]], str]] = {
    "comparison": comparison,
    "exported_models": exported_models,
    "quantized_models": quantized_models,
    "decoders": decoders,
    "devices": lambda values, beside: devices.render(load_rows("devices")),
    "diagnosis": lambda values, beside: diagnosis.render(load_rows("diagnosis")),
}
PAGES = (
    "README.md",
    "docs/operator-measurements.md",
    "docs/how-to/quantized.md",
    "docs/how-to/language-model.md",
    "docs/how-to/litert.md",
    "docs/diagnosis.md",
)  # the pages with markers


def _by_shape(values: Values, mode: str, threads: str, scenario: str) -> str:
    case = f"{mode}/{threads}/{scenario}/"
    shapes = dict.fromkeys(name.split("/")[3] for name in values if name.startswith(case))
    rows = [
        [shape.replace("x", ", "), *(_ratio(values, case + shape, each) for each in CONTESTANTS)] for shape in shapes
    ]
    return table(("batch, length", *CONTESTANTS), rows)


def _ratio(values: Values, case: str, contestant: str, base: str = BASE) -> str:
    ours, theirs = (values.get(f"{case}/{each}") for each in (contestant, base))
    return two_digits(quotient(ours, theirs)[0]) if ours and theirs else "-"
