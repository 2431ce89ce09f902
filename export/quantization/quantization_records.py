"""The results of a quantization: its trials, the effect of each layer, and the file that was written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics

Kind = Literal["decisions", "error", "size"]


@dataclass(frozen=True)
class Goal:
    """The goal of a quantization.

    Attributes:
        kind: "decisions", "error" or "size".
        value: The least share of the rows whose decisions stay, the largest relative error, or the largest share of the
            float file's bytes.
    """

    kind: Kind
    value: float

    def __str__(self) -> str:
        return {
            "decisions": f"decisions unchanged in at least {100 * self.value:g}% of all rows, with 95 % confidence",
            "error": f"a relative error of at most {self.value:g}",
            "size": f"at most {100 * self.value:g}% of the bytes",
        }[self.kind]


@dataclass(frozen=True)
class Score:
    """A file on some rows.

    Attributes:
        rows: Number of rows.
        changed: Rows with a changed decision, a NaN or an infinity on one side only, or no answer.
        error: The root mean square of the differences as a share of the output's standard deviation; the worst output.
        strain: The root mean square over rows of the error as a share of a decision's margin, at most 1 for each row. 0
            if no output decides.
        predicted: The rate of changed rows that the loss of margin predicts, also if no row of a small sample changes.
        bound: The rate of changed rows that the true rate is below, with the confidence; None for calibration rows.
        confidence: The confidence of `bound`. It grows with each file that was tried on the held-out rows.
        failure: The error of the runtime; empty if it answered.
    """

    rows: int
    changed: int
    error: float
    strain: float
    predicted: float = 0.0
    bound: float | None = None
    confidence: float | None = None
    failure: str = ""


@dataclass(frozen=True)
class Trial:
    """One quantized file.

    Attributes:
        layers_in_float: The layers that were left in float.
        nbytes: The size of the file.
        calibration: The file on the calibration rows.
        held_out: The file on the rows that calibration never saw; None if the calibration rows already refuted it.
        holds: Whether the file reaches the goal.
    """

    layers_in_float: tuple[str, ...]
    nbytes: int
    calibration: Score
    held_out: Score | None = None
    holds: bool = False


@dataclass(frozen=True)
class LayerEffect:
    """The effect of the quantization of one layer, alone and together with all others.

    Attributes:
        layer: The names that lead to the layer, joined by "/".
        operators: How often the layer has each operator that the quantizer takes.
        saved: The share of its bytes that the float file loses; negative if it grows.
        effect: The strain of the decisions with all other layers in float, or the relative error if no output decides.
        joint: The share of the squared effect of all layers together that goes with this layer to float; at least 0.
        share: The layer's share of the error: of the squared effects alone and of the joint shares.
        in_float: Whether the written file leaves the layer in float.
        tensors: The results of the layer's nodes, by their names in the float file.
    """

    layer: str
    operators: Mapping[str, int]
    saved: float
    effect: float
    joint: float = 0.0
    share: float = 0.0
    in_float: bool = False
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True)
class QuantizationResults:
    """The results of a quantization.

    Attributes:
        model: The name of the model.
        artifact: The path of the float file.
        filepath: The path of the quantized file; None if nothing was written.
        plan: The path of its plan; None if nothing was written.
        method: The quantizer, see `quantize`.
        goal: The goal.
        passed: Whether the file reaches the goal.
        chosen: The file that was written, or the nearest file if none reaches the goal.
        trials: All files that were tried, in order.
        layers: The effect of each layer, the most harmful for its bytes first.
        float_bytes: The size of the float file.
        decides: Whether an output decides. If none does, a row changes only by a NaN, an infinity or a lost answer.
        float_score: The float file on the held-out rows.
        statistics: The chosen file on the held-out rows, with the worst rows.
        float_seconds: The least time of one batch in the float file, in turns with the quantized file; NaN if the
            quantized file does not run.
        quantized_seconds: The least time of the same batch in the quantized file; NaN if the file does not run.
        left: Nodes with weights that the quantizer cannot take, as "layer (operator)".
        options: The options of the quantizer.
        data: The name of the data set.
        versions: The packages that took part.
        seconds: The duration of the whole call.
        date: The date, such as "2026-01-31T12:00:00+00:00".
    """

    computed: ClassVar[tuple[str, ...]] = ("size",)

    model: str
    artifact: str
    filepath: str | None
    plan: str | None
    method: str
    goal: Goal
    passed: bool
    chosen: Trial
    trials: tuple[Trial, ...]
    layers: tuple[LayerEffect, ...]
    float_bytes: int
    decides: bool
    float_score: Score
    statistics: RuntimeStatistics
    float_seconds: float
    quantized_seconds: float
    left: tuple[str, ...]
    options: Mapping[str, Any]
    data: str
    versions: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)
    date: str = field(default="", kw_only=True)

    @property
    def size(self) -> float:
        """The bytes of the chosen file as a share of the float file's."""
        return self.chosen.nbytes / self.float_bytes
