"""What a check found: plain frozen records, from the whole report down to one output in one case."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Status = Literal["passed", "failed", "refused"]


@dataclass(frozen=True)
class Comparison:
    """One output in one case: how far the runtime is from the truth, and how far it may be.

    Attributes:
        output: The output's name.
        passed: Whether the difference is allowed and nothing structural is wrong.
        problem: What makes the two incomparable or differ at any tolerance ("missing", "extra", a shape, a dtype, a
            NaN against a number), else None.
        shape: Of the expected array; of the actual one where the output is an extra.
        dtype: The expected array's type, by NumPy's name.
        count: Values compared.
        max_abs_diff: Largest absolute difference from the truth; infinity where a NaN meets a number.
        max_rel_diff: Largest difference divided by the magnitude of the true value, where that is not 0.
        max_ulp: Largest difference in units in the last place of the larger of the two values.
        rms: Root mean square of the difference.
        cosine: Cosine of the angle between the two arrays as vectors; None where one of them is zero.
        share_out: Share of the values that are out of tolerance, from 0 to 1.
        worst_index: Where the largest difference is; None for an empty array.
        expected: The true value there.
        actual: The runtime's value there.
        argmax_agreement: Share of the rows whose largest value is at the same place, where the output looks like
            probabilities; None where it does not.
        allowed: The absolute difference that is allowed.
        required: The smallest allowed difference that would have passed; infinity where none would.
        floor: Keras' own error against the float64 rebuild, the noise floor; None where there is no such rebuild.
        factor: `max_abs_diff / floor`; None where there is no floor.
    """

    output: str
    passed: bool
    problem: str | None
    shape: tuple[int, ...]
    dtype: str
    count: int = 0
    max_abs_diff: float = math.inf
    max_rel_diff: float = math.inf
    max_ulp: float = math.inf
    rms: float = math.inf
    cosine: float | None = None
    share_out: float = 1.0
    worst_index: tuple[int, ...] | None = None
    expected: float | None = None
    actual: float | None = None
    argmax_agreement: float | None = None
    allowed: float = 0.0
    required: float = math.inf
    floor: float | None = None
    factor: float | None = None


@dataclass(frozen=True)
class ErrorProfile:
    """How the differences of one output in one case spread, over positions and over magnitudes.

    Attributes:
        case: The case's name.
        output: The output's name.
        axis: The output's axis that positions are counted along: its second, or its only one; None for a scalar.
        size: The number of positions.
        starts: The first position of each bin; a bin ends where the next one starts.
        errors: The largest absolute difference in each bin; infinity where a NaN meets a number.
        noise: Keras' own largest error in each bin; empty where there is no float64 rebuild.
        equal: How many values do not differ at all.
        unbounded: How many values are NaN or infinite on one side only.
        decades: The edges of the histogram's bins, as decimal logarithms of the absolute difference.
        counts: How many of the other values are in each bin, one fewer than there are edges.
    """

    case: str
    output: str
    axis: int | None
    size: int
    starts: tuple[int, ...]
    errors: tuple[float, ...]
    noise: tuple[float, ...]
    equal: int
    unbounded: int
    decades: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class TriedInput:
    """One case of the sweep.

    Attributes:
        case: Its name, unique in the report.
        inputs: Each input as text, such as "float32 (3, 67, 8)".
        why: What the case is there to find.
        refused: The reference's error where it refuses the case, else None. Nothing is compared then, but a runtime
            that answers all the same has failed.
    """

    case: str
    inputs: Mapping[str, str]
    why: str
    refused: str | None = None


@dataclass(frozen=True)
class CaseResult:
    """One case in one runtime.

    Attributes:
        case: The case's name.
        status: "refused" where the reference and the runtime both refuse the case: nothing was compared.
        message: The runtime's error, or what else was wrong with the case as a whole; empty where nothing was.
        comparisons: One for each output, missing and extra ones included.
    """

    case: str
    status: Status
    message: str = ""
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A cause, and what speaks for it.

    Attributes:
        cause: A short fixed phrase from `keras_pe.export.parity.diagnosis.causes`, such as "wrong layout", or
            "unknown".
        evidence: One sentence with the numbers.
        layer: The Keras layer where the fault is, where that is known.
        output: The output that shows it, where it is one.
    """

    cause: str
    evidence: str
    layer: str | None = None
    output: str | None = None


@dataclass(frozen=True)
class LayerResult:
    """One Keras layer's output in the artifact, in the order of the model.

    Attributes:
        layer: The layer's name.
        tensor: The artifact's tensor nearest to the layer's output; None where none has its size.
        max_abs_diff: The distance between the two; infinity where there is no such tensor.
        allowed: The distance that is allowed.
        parted: Whether the layer's output differs.
        born: Whether the fault is born in this layer: fed with the reference's inputs it is still wrong. False where
            the layer only passes a fault on, None where it did not part or this could not be tried.
    """

    layer: str
    tensor: str | None
    max_abs_diff: float
    allowed: float
    parted: bool
    born: bool | None = None


@dataclass(frozen=True)
class Recording:
    """The arrays of a failing runtime's worst case. They are not part of `to_dict()`.

    Attributes:
        case: The case's name.
        inputs: What was fed.
        expected: The reference's outputs, empty where it refused.
        actual: The runtime's outputs, empty where it gave none.
        truth: The float64 rebuild's outputs, empty where there is none.
        before: What the runtime had been fed before, in this order: its state may depend on it.
    """

    case: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    actual: Mapping[str, Array]
    truth: Mapping[str, Array] = field(default_factory=dict)
    before: tuple[Mapping[str, Array], ...] = ()


@dataclass(frozen=True)
class RuntimeResult:
    """One artifact in one runtime.

    Attributes:
        artifact: The artifact's path; empty for a runtime that runs the model itself.
        format: "onnx", "tf_saved_model", "litert", or "keras" for the model itself.
        runtime: The runtime's name, such as "onnxruntime[all]".
        passed: Whether every case passed and at least one output was compared.
        status: "compared", or why it could not be: "crashed", "hung", "not loaded".
        message: The error where the status is not "compared"; else empty.
        cases: One for each case that was run.
        findings: The causes of a failure; empty where it passed.
        layers: Layer by layer, where a failure was traced through the model.
        version: The runtime's package and version.
        seconds: What the runs themselves took, imports and loading aside.
        profile: How the differences of its longest comparison spread; None where no arrays were compared.
        recording: The worst case's arrays, where it failed.
    """

    artifact: str
    format: str
    runtime: str
    passed: bool
    status: Literal["compared", "crashed", "hung", "not loaded"]
    message: str = ""
    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    layers: tuple[LayerResult, ...] = ()
    version: str = ""
    seconds: float = 0.0
    profile: ErrorProfile | None = None
    recording: Recording | None = field(default=None, compare=False, repr=False)

    @property
    def worst(self) -> tuple[str, Comparison] | None:
        """The case and comparison that is furthest out of tolerance; None where nothing was compared."""
        pairs = [(case.case, comparison) for case in self.cases for comparison in case.comparisons]
        return max(pairs, key=lambda pair: _excess(pair[1]), default=None)

    @property
    def first_parted_layer(self) -> str | None:
        """The first Keras layer whose output parts, where it is known."""
        return next((layer.layer for layer in self.layers if layer.parted), None)


@dataclass(frozen=True)
class NotTried:
    """A runtime that would take the artifact but is not installed.

    Attributes:
        runtime: Its name.
        artifact: The artifact it would have run.
        install: The command that installs it.
    """

    runtime: str
    artifact: str
    install: str


@dataclass(frozen=True)
class ParityReport:
    """A whole check.

    Attributes:
        model: The reference: the Keras model's name, an artifact's path, or "stored outputs".
        basis: What the differences are measured against and how much is allowed, in one sentence.
        tried: The cases.
        results: One for each artifact and runtime.
        not_tried: Runtimes that are not installed.
        seed: The seed of the sweep.
        versions: The packages that took part.
        seconds: The whole check.
    """

    model: str
    basis: str
    tried: tuple[TriedInput, ...]
    results: tuple[RuntimeResult, ...]
    not_tried: tuple[NotTried, ...] = ()
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every runtime passed. A check that compared nothing has failed."""
        return bool(self.results) and all(result.passed for result in self.results)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The causes found in all runtimes."""
        return tuple(dict.fromkeys(finding for result in self.results for finding in result.findings))

    @property
    def compared(self) -> int:
        """How many values were compared."""
        return sum(c.count for result in self.results for case in result.cases for c in case.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON's plain values; NaN and infinities as the texts "NaN", "Infinity", "-Infinity"."""
        plain: dict[str, Any] = _plain(self)
        return {"passed": self.passed, "compared": self.compared, **plain}

    def __str__(self) -> str:
        from keras_pe.export.parity.reports.text import render_text

        return render_text(self)


def _excess(comparison: Comparison) -> tuple[bool, float]:
    """Orders comparisons: failures before passes, then by how far out they are."""
    if comparison.allowed > 0:
        return not comparison.passed, comparison.max_abs_diff / comparison.allowed
    return not comparison.passed, comparison.max_abs_diff


def _plain(value: Any) -> Any:
    """Returns records, mappings, sequences, paths and NumPy scalars as JSON's plain values."""
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value) if f.name != "recording"]
        return {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
