"""Renders the stored results between the markers of the pages."""

import re
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from benchmarks import devices, diagnosis
from benchmarks.decoder import NEW
from benchmarks.exporter.exporter_tables import Values, exported_models, exporter, ratios_to_fastest
from benchmarks.markdown_cells import byte_count, error_size, table, two_decimals, two_digits
from benchmarks.measurement_files import load, load_rows
from benchmarks.measuring import ROOT, quotient

MARKED = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
BASE, ROTARY_BASE = "tensor2tensor", "plain formula"
CONTESTANTS = ("keras-hub", "keras_pe", "keras_pe, max_length")
TITLES = {
    "range": "Positions 0, 1, 2, ...",
    "static": "The same, the shape known when the graph is traced",
    "positions": "Positions given",
    "start": "A start given, one number",
    "starts": "A start given for each example",
}


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


def speeds(values: Values, beside: dict[str, Any]) -> str:
    """Returns a section for each runtime and number of threads, with a table for each way to call the layer."""
    cases = [name.split("/") for name in values if name.endswith(f"/{BASE}")]
    parts = []
    for mode, threads in dict.fromkeys((mode, threads) for mode, threads, *_ in cases):
        parts.append(f"## {mode}, {threads} thread{'s' * (threads != '1')}")
        for scenario, title in TITLES.items():
            shapes = [each[3] for each in cases if each[:3] == [mode, threads, scenario]]
            keys = {shape.replace("x", ", "): f"{mode}/{threads}/{scenario}/{shape}" for shape in shapes}
            rows = [[shape, *(_ratio(values, key, each) for each in CONTESTANTS)] for shape, key in keys.items()]
            if rows:
                parts.append(f"{title}:\n\n{table(('batch, length', *CONTESTANTS), rows)}")
    return "\n\n".join(parts)


def left_out(values: Values, beside: dict[str, Any]) -> str:
    """Returns a line for each part that was measured beside other work, and for each case that was not measured."""
    shared = [
        f"{part}: other work on the machine, so one thread only." for part, each in beside.items() if _is_shared(each)
    ]
    lines = [*shared, *(each for part in beside.values() for each in part.get("left out", []))]
    return "\n".join(f"- {each}" for each in lines) or "Nothing."


def _is_shared(part: dict[str, Any]) -> bool:
    return bool(part["machine"]["shared"])


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


def rotary(values: Values, beside: dict[str, Any]) -> str:
    """Turning queries in each runtime."""
    cases = dict.fromkeys(name.rpartition("/")[0] for name in values if name.endswith(f"/{ROTARY_BASE}"))
    parts = []
    for mode in dict.fromkeys(case.split("/")[0] for case in cases):
        rows = [
            [
                *case.replace("x", ", ").split("/")[2:],
                *(_ratio(values, case, each, ROTARY_BASE) for each in CONTESTANTS),
            ]
            for case in cases
            if case.startswith(f"{mode}/")
        ]
        parts.append(f"{mode}:\n\n{table(('queries', 'batch, length', *CONTESTANTS), rows)}")
    return "\n\n".join(parts)


def quantized_models(values: Values, beside: dict[str, Any]) -> str:
    """Returns a line for each file of each model."""
    header = ("model", "file", "bytes", "time", "rows changed", "bound", "error", "layers in float", "goal reached")
    files: dict[tuple[str, str], Mapping[str, Any]] = {}
    for name, found in load_rows("quantize").items():
        for row in found:  # each method has a row of the float32 file
            files.setdefault((name.partition(" / ")[0], row["file"]), row)
    lines = [
        (
            model,
            file,
            byte_count(row["bytes"]),
            two_decimals(row["time"]),
            f"{row['changed']:,} of {row['rows']:,}" if row["decides"] else "-",
            f"{row['bound']:.2%}" if row["decides"] and row["bound"] is not None else "-",
            error_size(row["error"]),
            "-" if row["layers in float"] is None else str(row["layers in float"]),
            "yes" if row["passed"] else "no",
        )
        for (model, file), row in files.items()
    ]
    return table(header, lines)


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
    return table(("contestant", *titles), lines)


def machine(values: Values, beside: dict[str, Any]) -> str:
    """Returns the sentence about the machine and the versions."""
    about = beside["onnxruntime"]["machine"]
    measured = [part["machine"]["versions"] for part in beside.values() if "machine" in part]  # each in what it needed
    found = {name: version for versions in measured for name, version in versions.items() if version}
    versions = ", ".join(f"{name} {version}" for name, version in found.items())
    return f"{about['cores']} cores of {about['processor']}; Python {about['python']}, {versions}."


BLOCKS: dict[str, Callable[[Values, dict[str, Any]], str]] = {
    "machine": machine,
    "accuracy": accuracy,
    "half_precision": half_precision,
    "runtimes": runtimes,
    "speeds": speeds,
    "rotary": rotary,
    "exporter": exporter,
    "left_out": left_out,
    "comparison": comparison,
    "exported_models": exported_models,
    "quantized_models": quantized_models,
    "decoders": decoders,
    "devices": lambda values, beside: devices.render(load_rows("devices")),
    "diagnosis": lambda values, beside: diagnosis.render(load_rows("diagnosis")),
}
PAGES = (
    "README.md",
    "docs/benchmarks.md",
    "docs/operator-measurements.md",
    "docs/how-to/quantized.md",
    "docs/how-to/language-model.md",
    "docs/how-to/litert.md",
    "docs/diagnosis.md",
)  # the pages with markers


def _ratio(values: Values, case: str, contestant: str, base: str = BASE) -> str:
    ours, theirs = (values.get(f"{case}/{each}") for each in (contestant, base))
    return two_digits(quotient(ours, theirs)[0]) if ours and theirs else "-"
