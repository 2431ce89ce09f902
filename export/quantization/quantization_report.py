"""Renders the report of a quantization: the trials, the effect of each layer, and the worst rows."""

from collections.abc import Iterator, Mapping
from typing import Any

from keras_pe.display import shown_bytes
from keras_pe.export.parity.dataset.data_report import describe_row
from keras_pe.export.parity.presentation.figures import number
from keras_pe.export.parity.reports.document import (
    CaseVerdict,
    Document,
    Mark,
    Outcome,
    Part,
    Picture,
    PictureAxis,
    Points,
    Row,
    Statement,
    Suite,
    TextTable,
)
from keras_pe.export.parity.reports.json import Published
from keras_pe.export.parity.reports.report import Report
from keras_pe.export.parity.statistics.confidence import rate
from keras_pe.export.quantization.quantization_records import QuantizationResults, Score, Trial

_TRIALS = ("file", "result", "layers in float", "size", "changed, calibration", "changed, held out", "bound", "error")
_LAYERS = ("layer", "operators", "saves", "effect alone", "share of error", "written as")
_NOISE = 1.05  # the largest ratio of times that equal files may have
_OF_WEIGHTS = "The file converts its weights to floats in each call."
_COSTS: Mapping[str, str] = {
    "static": "The file converts values between integers and floats. Operators without integer kernels stay in float.",
    "dynamic": "The file computes the range of each value in each call. Convolutions of integers are slow.",
    "int8-weights": _OF_WEIGHTS,
    "int4-weights": _OF_WEIGHTS,
    "float16": "The file converts inputs, outputs and weights between 16 and 32 bits.",
    "keras-int8": "Separate operators round the values, and convert the results to floats.",
    "keras-int4": _OF_WEIGHTS,
}
"""The computation that each quantizer adds."""

_BITS: Mapping[bool, str] = {
    False: "They have 8 bits. On x86 processors without VNNI, sums of two int8 products saturate at 16 bits. Such a "
    "processor needs a file that is quantized on it.",
    True: "They have 7 bits, since sums of two int8 products saturate at 16 bits on this processor.",
}
"""The weights of a static ONNX file, by the option `reduce_range`."""

_SHOWN_LAYERS = 12
_SHOWN_ROWS = 3


class QuantizationReport(Report, QuantizationResults):
    """The report of `quantize`: the fields of `QuantizationResults`, and methods that render them.

    `print(report)` prints the text of the terminal, `report.save("report.html")` writes a page, `report.to_dict()`
    returns JSON values, and `report.node_data()` those that Model Explorer shows.
    """

    published = Published("quantization-report", "A quantization", QuantizationResults)

    def node_data(self) -> dict[str, Any]:
        """Returns each layer's share of the error as node data of Model Explorer, which colors the float file with it.

        Returns:
            JSON values. `results` has the share of a layer under each tensor that the layer's nodes return.
        """
        shares = {name: {"value": each.share} for each in self.layers for name in each.tensors}
        colors = [{"stop": stop, "bgColor": color} for stop, color in enumerate(("white", "red"))]
        return {"name": "share of the error", "results": shares, "gradient": colors}

    def document(self) -> Document:
        name = self.filepath or "nothing written"
        statements = tuple(Statement("worst", describe_row(row)) for row in self.statistics.failing[:_SHOWN_ROWS])
        part = Part(
            title=name,
            passed=self.passed,
            statements=statements,
            pictures=tuple(_pictures(self)),
            is_open=True,
        )
        verdict = CaseVerdict(str(self.goal), Outcome.of(self.passed), "goal missed", _verdict(self))
        return Document(
            title=f"{self.artifact} quantized",
            passed=self.passed,
            summary=tuple(_summary(self)),
            parts=(part,),
            overview=_trial_table(self),
            tables=(_layer_table(self),) if self.layers else (),
            remarks=tuple(_remarks(self)),
            appendix=(TextTable("Versions", ("package", "version"), tuple(self.versions.items())),),
            suites=(Suite(name, (verdict,), self.seconds),),
            seconds=self.seconds,
        )


def _verdict(found: QuantizationResults) -> str:
    score = found.chosen.held_out
    assert score is not None
    if score.failure:
        return f"the quantized file does not run: {score.failure}"
    figures = f"relative error {score.error:.2g}, {found.size:.1%} of the bytes"
    if found.decides or score.changed:
        bound = f" (with 95 % confidence fewer than {rate(score.bound)} of all similar rows)" if score.bound else ""
        figures = f"{score.changed:,} of {score.rows:,} rows changed{bound}, {figures}"
    return figures if found.passed else f"the nearest file: {figures}"


def _summary(found: QuantizationResults) -> Iterator[str]:
    score = found.chosen.held_out
    assert score is not None
    verdict = _verdict(found)
    yield f"Goal {'reached' if found.passed else 'missed'}: {found.goal}. {verdict[0].upper()}{verdict[1:]}."
    seen = found.chosen.calibration.rows
    yield (
        f"{found.method} quantization of {found.model}, calibrated on {seen:,} rows of {found.data}, proved on "
        f"{score.rows:,} other rows, in {found.seconds:.1f} s."
    )
    yield f"Size {shown_bytes(found.float_bytes)} to {shown_bytes(found.chosen.nbytes)} ({found.size:.2f})."
    if not score.failure:
        yield (
            f"Time of a batch, in turns: {1e3 * found.float_seconds:.2f} ms to {1e3 * found.quantized_seconds:.2f} ms "
            f"({_time(found):.2f})."
        )


def _remarks(found: QuantizationResults) -> Iterator[Statement]:
    if found.filepath is None:
        yield Statement("", "Nothing was written.")
    else:
        yield Statement("plan", f"{found.plan} has the options of the quantizer")
    if found.left:
        yield Statement("in float", f"the quantizer does not take {', '.join(found.left)}")
    if "reduce_range" in found.options:
        yield Statement("weights", _BITS[found.options["reduce_range"]])
    if not found.layers:
        yield Statement("layers", "this quantizer takes all layers or none, so no layer can return to float")
    score, allowed = found.chosen.held_out, 1 - found.goal.value
    if score and found.goal.kind == "decisions" and not found.passed and score.changed <= allowed * score.rows:
        share = f"{score.changed / score.rows:.2%} of the rows, and the goal allows {allowed:.2%}"
        yield Statement("rows", f"The nearest file changed {share}. More rows may prove the goal.")
    if found.size > 1:
        text = "The scales and the operators that round take more bytes than the weights lose."
        yield Statement("larger", f"The quantized file has {found.size:.2f} times the bytes. {text}")
    if _time(found) > _NOISE:
        text = f"The quantized file takes {_time(found):.2f} times as long here. {_COSTS[found.method]}"
        yield Statement("slower", text)


def _time(found: QuantizationResults) -> float:
    """Returns the time of the quantized file relative to the float file's; NaN if the file does not run."""
    return found.quantized_seconds / found.float_seconds


def _trial_table(found: QuantizationResults) -> TextTable:
    float_trial = Trial((), found.float_bytes, Score(0, 0, 0.0, 0.0), found.float_score)
    rows: list[Row] = [("float32", "", "all", *_figures(float_trial, found))]
    for place, trial in enumerate(found.trials, 1):
        is_chosen = trial.layers_in_float == found.chosen.layers_in_float
        mark = Mark(Outcome.of(trial.holds)) if trial.held_out else "not proved"
        name = f"{place}{' (chosen)' if is_chosen else ''}"
        rows.append((name, mark, f"{len(trial.layers_in_float)} of {len(found.layers)}", *_figures(trial, found)))
    return TextTable("Files", _TRIALS, tuple(rows))


def _figures(trial: Trial, found: QuantizationResults) -> tuple[str, ...]:
    seen, held_out = trial.calibration, trial.held_out

    def counts(score: Score | None) -> str:
        is_counted = score is not None and score.rows and (found.decides or score.changed)
        return f"{score.changed:,} of {score.rows:,}" if score is not None and is_counted else "-"

    has_bound = held_out is not None and held_out.bound is not None and counts(held_out) != "-"
    return (
        shown_bytes(trial.nbytes),
        counts(seen),
        counts(held_out),
        f"{held_out.bound:.2%}" if held_out is not None and has_bound else "-",
        number((held_out or seen).error),
    )


def _layer_table(found: QuantizationResults) -> TextTable:
    rows = tuple(
        (
            each.layer,
            ", ".join(name if count == 1 else f"{count} {name}" for name, count in each.operators.items()),
            f"{each.saved:.1%}",
            number(each.effect),
            f"{each.share:.1%}",
            "float" if each.in_float else "quantized",
        )
        for each in found.layers
    )
    floats = tuple(place for place, each in enumerate(found.layers) if each.in_float)
    excerpt = tuple(range(min(len(rows), _SHOWN_LAYERS)))
    return TextTable("Layers, the most harmful for its bytes first", _LAYERS, rows, floats, excerpt)


def _pictures(found: QuantizationResults) -> Iterator[Picture]:
    """Yields the share of the error of each layer, for the layers with the largest shares."""
    largest = sorted(found.layers, key=lambda each: -each.share)[:_SHOWN_LAYERS]
    if largest:
        names = tuple(each.layer for each in largest)
        places = tuple(map(float, range(len(largest))))
        shares = tuple(100 * each.share for each in largest)
        text = "The share of each layer in the squared error, quantized alone and together with the other layers."
        x, y = PictureAxis("share of the error, in percent", "share"), PictureAxis("layer", "names", names)
        yield Picture("Layers by their share of the error", text, x, y, (Points("layer", shares, places, "bar"),))
