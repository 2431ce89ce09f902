"""Renders what was measured into the README, between its markers, and whole into docs/benchmarks.md."""

import re
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from benchmarks.measuring import ROOT
from benchmarks.results import load

Medians = dict[str, float]
PARTS = ("accuracy", "onnxruntime", "tensorflow", "jax", "torch", "rotary", "costs", "exporter")
MARKED = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
BASE = "tensor2tensor"
CONTESTANTS = ("keras-hub", "keras_pe", "keras_pe, max_length", "one composition", "ready rows")
ROTARY_BASE = "plain formula"
ROTARY = ("one product, as a layer", "plain formula, as a layer", "keras-hub", "keras_pe", "keras_pe, max_length")
BY_HAND = (
    "turn alone, by hand",
    "one composition, no check, by hand",
    "one composition, by hand",
    "two compositions, by hand",
)
EXPORTERS = {
    "keras": "Keras",
    "torch": "PyTorch",
    "torchscript": "TorchScript",
    "torch optimized": "PyTorch, optimized",
    "torchscript optimized": "TorchScript, optimized",
}
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
_BY_HAND = """\
What a step cannot go below in ONNX Runtime, by graphs that were written by hand for the fewest operators
([what they leave out](operators.md)), relative to the plain formula:"""
_TABLES = """\
The layer's tables are in the file, and that is what buys exactness without a sine; equal layers share them.
`max_length=n` makes them n rows of 4 bytes a channel, 1.0 MB for 512 rows of 512 channels: where the file has to be
small, give the length that is needed. Beyond 8,192 rows they are composed of fewer."""


def render(text: str, medians: Medians, beside: dict[str, Any]) -> str:
    """Returns the text with what stands between its markers rendered anew.

    Raises:
        KeyError: If a marker names no block.
    """
    return MARKED.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](medians, beside)}\n{found[3]}", text)


def write() -> None:
    """Renders the stored results into the README and the page."""
    figures = load()
    readme = ROOT / "README.md"
    readme.write_text(render(readme.read_text(), *figures))
    (ROOT / "docs" / "benchmarks.md").write_text(page(*figures))


def page(medians: Medians, beside: dict[str, Any]) -> str:
    """Returns docs/benchmarks.md."""
    parts = [
        "# Every figure\n\nRendered by `python -m benchmarks`, which measures them: do not edit. Times are relative to "
        "tensor2tensor's formula in the same runtime,\nmedians of runs that took turns. " + machine(medians, beside)
    ]
    parts += ["## How exact", _EXACT, accuracy(medians, beside), _HALF, half_precision(medians, beside)]
    parts += ["## The layer in every runtime", _EVERYWHERE, runtimes(medians, beside)]
    speeds = [name.split("/") for name in medians if name.count("/") == 4]
    for mode, threads in dict.fromkeys((mode, threads) for mode, threads, *_ in speeds):
        parts.append(f"## {mode}, {threads} thread{'s' * (threads != '1')}")
        for scenario, title in TITLES.items():
            if any(each[:3] == [mode, threads, scenario] for each in speeds):
                parts.append(f"{title}:\n\n{_by_shape(medians, mode, threads, scenario)}")
    parts += ["## Rotary positions", _ROTARY, *rotary(medians)]
    parts += ["## What it adds to a model", costs(medians, beside), _TABLES, identify(medians, beside)]
    if "exporter" in beside:
        parts += ["## The exporter", exporter(medians, beside)]
    left_out = [f"{part}: not measured yet." for part in PARTS if part not in beside]
    left_out += [each for part in beside.values() for each in part.get("left out", [])]
    if left_out:
        parts += ["## Left out", "\n".join(f"- {each}" for each in left_out)]
    return "\n\n".join(parts) + "\n"


def accuracy(medians: Medians, beside: dict[str, Any]) -> str:
    """The largest error by the reach of the positions."""
    errors = beside["accuracy"]["figures"]["largest error below"]
    header = ("positions below", "tensor2tensor, float32", "timescales from float64, product in float32", "keras_pe")
    return _table(header, ((f"{int(reach):,}", *map(_error, each.values())) for reach, each in errors.items()))


def half_precision(medians: Medians, beside: dict[str, Any]) -> str:
    """What half precision leaves."""
    rows = (
        (f"`{policy}`", *(f"{_error(error)}, {int(distinct):,} rows" for error, distinct in each.values()))
        for policy, each in beside["accuracy"]["figures"]["half precision"].items()
    )
    return _table(("policy", "keras-hub `SinePositionEncoding`", "keras_pe"), rows)


def onnxruntime(medians: Medians, beside: dict[str, Any]) -> str:
    """A range in ONNX Runtime."""
    return _by_shape(medians, "ONNX Runtime", "1", "range")


def runtimes(medians: Medians, beside: dict[str, Any]) -> str:
    """This package in every runtime."""
    cases = {
        "range, (1, 2048)": "range/1x2048",
        "range, (8, 128)": "range/8x128",
        "positions, (32, 512)": "positions/32x512",
        "start, (1, 2048)": "start/1x2048",
        "starts, (32, 512)": "starts/32x512",
    }
    measured = dict.fromkeys(tuple(name.split("/")[:2]) for name in medians if name.count("/") == 4)
    rows = (
        (f"{mode}, {threads}", *(_ratio(medians, f"{mode}/{threads}/{case}", "keras_pe") for case in cases.values()))
        for mode, threads in measured
    )
    return _table(("runtime, threads", *cases), rows)


def rotary(medians: Medians) -> list[str]:
    """Turning queries in each runtime, and the graphs that were written by hand."""
    cases = dict.fromkeys(name.rpartition("/")[0] for name in medians if name.endswith(f"/{ROTARY_BASE}"))
    parts = []
    for mode in dict.fromkeys(case.split("/")[0] for case in cases):
        rows = [
            [*case.replace("x", ", ").split("/")[2:], *(_ratio(medians, case, each, ROTARY_BASE) for each in ROTARY)]
            for case in cases
            if case.startswith(f"{mode}/")
        ]
        parts.append(f"{mode}:\n\n{_table(('queries', 'batch, length', *ROTARY), rows)}")
    steps = [case for case in cases if f"{case}/{BY_HAND[0]}" in medians]
    rows = [
        [case.split("/")[3].replace("x", ", "), *(_ratio(medians, case, each, ROTARY_BASE) for each in BY_HAND)]
        for case in steps
    ]
    return [*parts, _BY_HAND, _table(("batch, length", *BY_HAND), rows)]


def costs(medians: Medians, beside: dict[str, Any]) -> str:
    """Bytes, times and memory, absolute."""
    whose = (BASE, "keras_pe", "keras_pe, max_length", "keras_pe, max_length=65536")
    rows = {
        "ONNX file": ("onnx", _bytes),
        "ONNX file, three equal layers": ("onnx, three layers", _bytes),
        "SavedModel, three equal layers": ("saved model, three layers", _bytes),
        "loaded by ONNX Runtime in": ("load", _milliseconds),
        "layer built in": ("build", _milliseconds),
        "memory of a call, positions given, (32, 512), `tf.function`": ("memory, TensorFlow, tf.function", _bytes),
        "memory of a call, positions given, (32, 512), eager": ("memory, TensorFlow, eager", _bytes),
    }
    header = ("cost", BASE, "keras_pe", "`max_length=8192`", "`max_length=65536`")
    lines = [
        (title, *(form(medians[f"{key}/{each}"]) if f"{key}/{each}" in medians else "" for each in whose))
        for title, (key, form) in rows.items()
        if f"{key}/keras_pe" in medians
    ]
    return _table(header, lines) if lines else "It was not measured yet."


def exporter(medians: Medians, beside: dict[str, Any]) -> str:
    """The exporter and its files against those of others."""
    runs = [name.split("/")[1] for name in medians if name.startswith("exported/") and name.endswith("/keras_pe")]
    quotients = {run: over_fastest(medians, f"exported/{run}") for run in runs}
    lines = [
        (
            run,
            *(_quotient(medians, f"exported/{run}", other) for other in EXPORTERS),
            _two_decimals(quotients[run]),
            _quotient(medians, f"exported/{run}", "keras_pe again"),
        )
        for run in runs
    ]
    known = sorted(quotient for quotient in quotients.values() if quotient is not None)
    costs = [
        ("time of an export, BERT of 200 MiB", _quotient(medians, "export of BERT", "keras")),
        ("highest memory of its process", _quotient(medians, "export of BERT, peak", "keras")),
    ]
    check = median(beside["exporter"]["check relative to its runs"])
    above = sum(quotient > 1 for quotient in known)
    summary = (
        f"Relative to the fastest of them, the median of all runs is {_two_decimals(median(known))}, and of "
        f"{len(known)} runs {above} are above 1."
    )
    return "\n\n".join(
        [
            "A run in ONNX Runtime, relative to the file of",
            _table(("model, case, threads", *EXPORTERS.values(), "the fastest of them", "itself, opened again"), lines),
            summary,
            _table(("relative to the export of", EXPORTERS["keras"]), costs),
            f"A whole parity check takes {check:.2g} times as long as the bare runs that it makes.",
        ]
    )


def over_fastest(medians: Medians, run: str) -> float | None:
    """Returns our median of a run over the least of all others; None where there is no other."""
    others = [medians[f"{run}/{other}"] for other in EXPORTERS if f"{run}/{other}" in medians]
    return medians[f"{run}/keras_pe"] / min(others) if others else None


def identify(medians: Medians, beside: dict[str, Any]) -> str:
    """How long `identify` takes."""
    shapes = [name.removeprefix("identify/") for name in medians if name.startswith("identify/")]
    times = (f"{medians[f'identify/{each}']:.1f} s for a table of ({each.replace('x', ', ')})" for each in shapes)
    return f"`identify` takes {' and '.join(times)}." if shapes else "`identify` was not measured yet."


def machine(medians: Medians, beside: dict[str, Any]) -> str:
    """What was measured on."""
    about = beside["onnxruntime"]["machine"]
    shared = ", shared with other work while it measured" if about["shared"] else ""
    measured = [part["machine"]["versions"] for part in beside.values() if "machine" in part]  # each in what it needed
    found = {name: version for versions in measured for name, version in versions.items() if version}
    versions = ", ".join(f"{name} {version}" for name, version in found.items())
    return f"{about['cores']} cores of {about['processor']}{shared}; Python {about['python']}, {versions}."


BLOCKS: dict[str, Callable[[Medians, dict[str, Any]], str]] = {"accuracy": accuracy, "onnxruntime": onnxruntime}


def _by_shape(medians: Medians, mode: str, threads: str, scenario: str) -> str:
    case = f"{mode}/{threads}/{scenario}/"
    shapes = dict.fromkeys(name.split("/")[3] for name in medians if name.startswith(case))
    rows = [
        [shape.replace("x", ", "), *(_ratio(medians, case + shape, each) for each in CONTESTANTS)] for shape in shapes
    ]
    return _table(("batch, length", *CONTESTANTS), rows)


def _ratio(medians: Medians, case: str, contestant: str, base: str = BASE) -> str:
    ours, theirs = (medians.get(f"{case}/{each}") for each in (contestant, base))
    return _two_digits(ours / theirs) if ours and theirs else "-"


def _quotient(medians: Medians, name: str, other: str) -> str:
    ours, theirs = (medians.get(f"{name}/{route}") for route in ("keras_pe", other))
    return _two_decimals(ours / theirs if ours and theirs else None)


def _two_digits(value: float) -> str:
    return f"{value:#.2g}".rstrip(".")


def _two_decimals(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _bytes(value: float) -> str:
    return f"{value / 1e6:.1f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


def _milliseconds(value: float) -> str:
    return f"{value * 1e3:.2g} ms"


def _error(value: float) -> str:
    return f"{value:.1e}".replace("e-0", "e-") if value < 0.1 else f"{value:.2g}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
