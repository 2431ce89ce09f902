"""Renders the tables of the exporter's benchmark: our files beside those of other exporters."""

from statistics import median
from typing import Any

from benchmarks.markdown_cells import table, two_decimals
from benchmarks.measuring import quotient

Values = dict[str, list[float]]

EXPORTERS = {
    "keras": "Keras",
    "torch": "PyTorch",
    "torchscript": "TorchScript",
    "torch optimized": "PyTorch, optimized",
    "torchscript optimized": "TorchScript, optimized",
}


def exporter(values: Values, beside: dict[str, Any]) -> str:
    """The exporter and its files against those of others."""
    lines = [
        (
            case,
            *(_over(values, f"exported/{case}", other) for other in EXPORTERS),
            two_decimals(fastest[0]),
            _over(values, f"exported/{case}", "keras_pe again"),
        )
        for case, fastest in ratios_to_fastest(values).items()
    ]
    costs = [
        ("time of an export, BERT of 200 MiB", _over(values, "export of BERT", "keras")),
        ("highest memory of its process", _over(values, "export of BERT, peak", "keras")),
    ]
    return "\n\n".join(
        [
            "A run in ONNX Runtime, relative to the file of",
            table(("model, case, threads", *EXPORTERS.values(), "the fastest of them", "itself, opened again"), lines),
            _all_cases(values),
            table(("relative to the export of", EXPORTERS["keras"]), costs),
        ]
    )


def exported_models(values: Values, beside: dict[str, Any]) -> str:
    """A line for each model: its file beside the fastest of all others, and the operators of both."""
    by_model: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for case, (ratio, *_) in ratios_to_fastest(values).items():
        model, size, threads = case.split(", ")
        by_model.setdefault(model, {}).setdefault(threads, []).append((size, two_decimals(ratio)))
    counts = beside["exporter"]["operators"]
    header = ("model", "batch x size", *next(iter(by_model.values())), "operators", "the fewest of others")
    lines = [
        (
            model,
            ", ".join(size for size, _ in next(iter(cases.values()))),
            *(", ".join(ratio for _, ratio in each) for each in cases.values()),
            str(counts[model]["keras_pe"][0]),
            str(min(operators for route, (operators, _) in counts[model].items() if route != "keras_pe")),
            str(counts[model]["keras_pe"][1]),
        )
        for model, cases in by_model.items()
    ]
    return f"{table((*header, 'transpositions'), lines)}\n\n{_all_cases(values)}"


def over_fastest(values: Values, case: str) -> tuple[float, float, float] | None:
    """Returns how long our file takes over that of the others which is the fastest, and the interval of 95 %.

    The result is None if the benchmark has no other file.
    """
    others = [values[f"{case}/{other}"] for other in EXPORTERS if f"{case}/{other}" in values]
    return max((quotient(values[f"{case}/keras_pe"], other) for other in others), default=None)


def ratios_to_fastest(values: Values) -> dict[str, tuple[float, float, float]]:
    """Returns the ratio of our file to the fastest other file of each case, see `over_fastest`."""
    cases = [name.split("/")[1] for name in values if name.startswith("exported/") and name.endswith("/keras_pe")]
    found = {case: over_fastest(values, f"exported/{case}") for case in cases}
    return {case: fastest for case, fastest in found.items() if fastest is not None}


def _all_cases(values: Values) -> str:
    found = ratios_to_fastest(values)
    surely = [f"{case} ({ratio:.2f})" for case, (ratio, least, _) in found.items() if least > 1]
    return (
        f"The median of these {len(found)} ratios to the fastest of all others is "
        f"{two_decimals(median(ratio for ratio, *_ in found.values()))}. The interval of 95 % lies above 1 in "
        f"{len(surely)} of them{':' if surely else ''} {'; '.join(surely)}".rstrip()
        + "."
    )


def _over(values: Values, case: str, other: str) -> str:
    ours, theirs = (values.get(f"{case}/{route}") for route in ("keras_pe", other))
    return two_decimals(quotient(ours, theirs)[0]) if ours and theirs else "-"
