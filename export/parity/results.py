"""What a check found: plain frozen records, from the whole report down to one output in one case."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
CaseStatus = Literal["passed", "failed", "skipped"]
RunStatus = Literal["compared", "crashed", "hung", "not loaded"]


@dataclass(frozen=True)
class Comparison:
    """One output in one case: how far the runtime is from the truth, and how far it may be.

    Attributes:
        output: The output's name.
        passed: Whether the difference is within the tolerance and nothing structural is wrong.
        problem: What makes the two incomparable or differ at any tolerance ("missing", "extra", a shape, a dtype, a
            NaN against a number), else None.
        shape: Of the reference's array; of the actual one where the output is an extra.
        dtype: The type of the reference's array, by NumPy's name.
        count: Values compared.
        max_abs_diff: Largest absolute difference from the truth; infinity where a NaN meets a number.
        max_rel_diff: Largest difference divided by the magnitude of the true value, where that is not 0.
        max_ulp: Largest difference in units in the last place of the larger of the two values.
        rms: Root mean square of the difference.
        cosine: Cosine of the angle between the two arrays as vectors; None where one of them is zero.
        fraction_out_of_tolerance: Of the values, from 0 to 1.
        worst_index: Where the largest difference is; None for an empty array.
        expected: The reference's value there, in its own precision.
        truth: The true value there: that of the float64 rebuild, or where there is none the reference's.
        actual: The runtime's value there.
        argmax_agreement: Fraction of the rows whose largest value is at the same place, where the output looks like
            probabilities; None where it does not.
        tolerance: The absolute difference that is allowed.
        min_passing_tolerance: The smallest tolerance that would have passed; infinity where none would.
        noise_floor: Keras' own error against the float64 rebuild; None where there is no such rebuild.
        noise_ratio: `max_abs_diff / noise_floor`; None where there is no floor.
        precision_gap: How far the model in its own precision is from what the artifact is measured against, where the
            artifact computes in a wider one; else None.
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
    fraction_out_of_tolerance: float = 1.0
    worst_index: tuple[int, ...] | None = None
    expected: float | None = None
    truth: float | None = None
    actual: float | None = None
    argmax_agreement: float | None = None
    tolerance: float = 0.0
    min_passing_tolerance: float = math.inf
    noise_floor: float | None = None
    noise_ratio: float | None = None
    precision_gap: float | None = None


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
        nonfinite: How many values are NaN or infinite on one side only.
        log10_bin_edges: The edges of the histogram's bins, as decimal logarithms of the absolute difference.
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
    nonfinite: int
    log10_bin_edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class CaseInfo:
    """One case of the sweep.

    Attributes:
        name: Unique in the report.
        inputs: Each input as text, such as "float32 (3, 67, 8)".
        purpose: What the case is there to find.
        error: The reference's error where it refuses the case, else None. Nothing is compared then, but a runtime that
            answers all the same has failed.
    """

    name: str
    inputs: Mapping[str, str]
    purpose: str
    error: str | None = None


@dataclass(frozen=True)
class CaseResult:
    """One case in one runtime.

    Attributes:
        name: The case's name.
        status: "skipped" where the reference and the runtime both refuse the case: nothing was compared.
        error: The runtime's error, or what else was wrong with the case as a whole; empty where nothing was.
        comparisons: One for each output, missing and extra ones included.
    """

    name: str
    status: CaseStatus
    error: str = ""
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A cause, and what speaks for it.

    Attributes:
        cause: A short fixed phrase, such as "wrong layout", or "unknown".
        evidence: A sentence or two, with the numbers.
        layer: The path of the Keras layer where the fault is, where that is known.
        output: The output that shows it, where it is one.
    """

    cause: str
    evidence: str
    layer: str | None = None
    output: str | None = None


@dataclass(frozen=True)
class LayerResult:
    """One Keras layer's output in the artifact, in the order in which the model computes.

    Attributes:
        layer: The layer's path, with the number of the call behind it where there are several.
        tensor: The artifact's tensor that holds the output; None where none does.
        max_abs_diff: The distance between the two in the artifact as it is; infinity where there is no such tensor.
        tolerance: The distance that is allowed.
        differs: Whether it is larger.
        originates_here: Whether the fault is this layer's own: with the outputs of the layers at fault before it
            replaced by Keras' own it still differs. None where this could not be tried.
    """

    layer: str
    tensor: str | None
    max_abs_diff: float
    tolerance: float
    differs: bool
    originates_here: bool | None = None


@dataclass(frozen=True)
class Proof:
    """What the artifact returns with the outputs of the layers at fault replaced by Keras' own.

    Attributes:
        layers: The layers whose outputs were replaced.
        max_abs_diff: Of the output that is furthest out of tolerance, from what Keras returns.
        tolerance: What is allowed for it.
        holds: Whether all outputs are within tolerance: the layers explain the whole difference.
    """

    layers: tuple[str, ...]
    max_abs_diff: float
    tolerance: float
    holds: bool


@dataclass(frozen=True)
class Recording:
    """The arrays of a failing runtime's worst case. They are not part of the report as JSON.

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
        format: "onnx", "tf_saved_model", "litert", "keras" for the model itself, or "served" for one behind an address.
        runtime: The runtime's name, such as "onnxruntime[all]".
        passed: Whether every case passed and at least one output was compared.
        status: "compared", or why it could not be: "crashed", "hung", "not loaded".
        error: The error where the status is not "compared"; else empty.
        cases: One for each case that was run.
        findings: The causes of a failure; empty where it passed.
        layers: Layer by layer, where a failure was traced through the model.
        proof: What replacing the layers at fault gives; None where none was found or it could not be tried.
        version: The runtime's package and version.
        providers: How many nodes of the graph each execution provider got, where the runtime tells.
        seconds: What the runs themselves took, imports and loading aside.
        profile: How the differences of its longest comparison spread; None where no arrays were compared.
        recording: The worst case's arrays, where it failed.
    """

    artifact: str
    format: str
    runtime: str
    passed: bool
    status: RunStatus
    error: str = ""
    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    layers: tuple[LayerResult, ...] = ()
    proof: Proof | None = None
    version: str = ""
    providers: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    profile: ErrorProfile | None = None
    recording: Recording | None = field(default=None, compare=False, repr=False)

    @property
    def worst(self) -> tuple[str, Comparison] | None:
        """The case and comparison that is furthest out of tolerance; None where nothing was compared."""
        pairs = [(case.name, comparison) for case in self.cases for comparison in case.comparisons]
        return max(pairs, key=lambda pair: _excess(pair[1]), default=None)

    @property
    def first_layer_that_differs(self) -> str | None:
        """The path of the first Keras layer whose output differs, where it is known."""
        return next((layer.layer for layer in self.layers if layer.differs), None)


@dataclass(frozen=True)
class SkippedRuntime:
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
class Stage:
    """A part of a check.

    Attributes:
        name: What it does.
        seconds: How long it took.
        processor_seconds: What this process computed meanwhile, over all its threads; a runtime has a process of its
            own, whose seconds are in its `RuntimeResult`.
    """

    name: str
    seconds: float
    processor_seconds: float


@dataclass(frozen=True)
class ParityReport:
    """A whole check.

    Attributes:
        model: The Keras model's name, an artifact's path, or that of the stored outputs.
        reference: What the differences are measured against and how much is allowed, in one sentence.
        cases: The inputs.
        results: One for each artifact and runtime.
        skipped: Runtimes that are not installed.
        seed: The seed of the sweep.
        versions: The packages that took part.
        seconds: The whole check.
        stages: Its parts, in their order.
    """

    model: str
    reference: str
    cases: tuple[CaseInfo, ...]
    results: tuple[RuntimeResult, ...]
    skipped: tuple[SkippedRuntime, ...] = ()
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    stages: tuple[Stage, ...] = ()

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
        from keras_pe.export.parity.reports.json import to_plain

        return to_plain(self)

    def __str__(self) -> str:
        """Returns what the terminal shows of it, 100 columns wide."""
        from keras_pe.export.parity.reports.text import render_text

        return render_text(self)


def _excess(comparison: Comparison) -> tuple[bool, float]:
    """Orders comparisons: failures before passes, then by how far out they are."""
    if comparison.tolerance > 0:
        return not comparison.passed, float(np.divide(comparison.max_abs_diff, comparison.tolerance))
    return not comparison.passed, comparison.max_abs_diff
