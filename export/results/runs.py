"""The record of one artifact in one runtime: its cases, its failures and what it stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import Any, Literal

import numpy.typing as npt

from keras_pe.display import Shown
from keras_pe.export.results.comparison import Comparison, ErrorProfile
from keras_pe.export.results.diagnosis import Finding, LayerResult, Proof
from keras_pe.export.results.recordings import Recording

Array = npt.NDArray[Any]
QuantizedRole = Literal["weight", "value"]


class CaseStatus(StrEnum):
    """Status of a case.

    A case is skipped if the reference and the runtime both refuse it. It is also skipped if the eager model refuses it
    and the compiled model accepts it.
    """

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class RunStatus(StrEnum):
    """Whether an artifact could be compared in a runtime, and why it could not."""

    COMPARED = "compared"
    CRASHED = "crashed"
    HUNG = "hung"
    NOT_LOADED = "not loaded"
    INVALID_ANSWER = "invalid answer"


@dataclass(frozen=True, repr=False)
class CaseResult(Shown):
    """One case in one runtime.

    Attributes:
        name: The case's name.
        status: Status of the case.
        error: The runtime's error, or what else was wrong with the case as a whole; empty where nothing was.
        comparisons: One for each output, missing and extra ones included.
    """

    name: str
    status: CaseStatus
    error: str = ""
    comparisons: tuple[Comparison, ...] = ()

    def _one_line(self) -> str:
        return f"{self.name}: {self.error or self.status}"

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        return {"case": self.name, "verdict": self.error or self.status} | {
            each.output: repr(each) for each in self.comparisons
        }


@dataclass(frozen=True)
class NameMatch:
    """An input or output that the artifact calls otherwise than the model.

    Attributes:
        kind: Kind of the case.
        model: Its name in the model.
        artifact: Its name in the artifact.
        by_order: Whether others of its type and shape were left to choose from: then it is the first of them.
    """

    kind: Literal["input", "output"]
    model: str
    artifact: str
    by_order: bool


@dataclass(frozen=True)
class StoredWeights:
    """How much of the model's weights was compared with what an artifact stores.

    Attributes:
        count: How many weights of floating-point numbers the model has.
        compared: How many of them the artifact holds as such, by name or by content. The others are folded into each
            other, rounded or laid out in a way of their own, and only the outputs speak for them.
        nbytes: The bytes of all.
        compared_nbytes: Bytes of the compared weights.
    """

    count: int
    compared: int
    nbytes: int
    compared_nbytes: int


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor of integers that stand for the numbers `scale * (integer - zero_point)`.

    Attributes:
        layer: The names that lead to its layer, joined by "/"; empty if the file does not tell.
        name: The name of the tensor.
        role: "weight" for a constant, "value" for a tensor that the file computes.
        dtype: The type of the integers, such as "int8", "uint8" or "int4".
        scales: The number of scales; 0 if the file computes one scale at each call.
        steps: The smallest and the largest scale; None if the file computes it.
        limits: The least and the greatest number that the integers stand for; None if the file computes the scale.
        zero_points: The least and the greatest integer that stand for the number 0; None if the file computes it.
    """

    layer: str
    name: str
    role: QuantizedRole
    dtype: str
    scales: int
    steps: tuple[float, float] | None
    limits: tuple[float, float] | None
    zero_points: tuple[float, float] | None


@dataclass(frozen=True)
class TakenBranches:
    """Branches of an artifact's conditions that the cases have taken together; conditions in branches and loops are
    left out.

    Attributes:
        count: How many branches there are, two for each condition.
        missed: Branches that no case has taken: the missing value of the condition, by its name.
    """

    count: int
    missed: Mapping[str, bool]

    @property
    def taken(self) -> int:
        """How many some case has taken."""
        return self.count - len(self.missed)


@dataclass(frozen=True, repr=False)
class RuntimeResult(Shown):
    """One artifact in one runtime.

    Attributes:
        artifact: The artifact's path; empty for a runtime that runs the model itself.
        signature: The signature that ran, of a LiteRT file with a signature for each set of sizes; otherwise empty.
        format: "onnx", "tf_saved_model", "litert", "keras" for the model itself, or "served" for one behind an address.
        runtime: The runtime's name, such as "onnxruntime[all]".
        passed: Whether every case passed, at least one output was compared, and no stored weight is damaged.
        is_accepted: Whether the cases only passed by accepted differences. They fail the strict tolerance.
        status: Whether it could be compared.
        error: The error where it could not; else empty.
        cases: One for each case that was run.
        findings: The causes of a failure, or of a difference that is accepted; else empty.
        layers: Layer by layer, where a failure was traced through the model.
        proof: Result of replacing the layers at fault; None if no layer was located or it could not be tried.
        version: The runtime's package and version.
        names: The inputs and outputs that the artifact calls otherwise, matched for the comparison.
        providers: How many nodes of the graph each execution provider got, where the runtime tells.
        seconds: Duration of the runs, without imports and loading.
        profile: How the differences of its longest comparison spread; None where no arrays were compared.
        weights: How much of the weights was compared by content, where every case passed; None where the runtime does
            not tell what is stored.
        branches: Branches of its conditions that were taken, if every case passed; None if the runtime does not report
            them.
        quantized: The weights and values that the artifact has as integers with a scale.
        recording: The worst case's arrays, where it failed. It is not written as JSON.
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
    names: tuple[NameMatch, ...] = ()
    providers: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    profile: ErrorProfile | None = None
    weights: StoredWeights | None = None
    branches: TakenBranches | None = None
    is_accepted: bool = False
    quantized: tuple[QuantizedTensor, ...] = ()
    signature: str = ""
    recording: Recording | None = field(default=None, compare=False, repr=False, metadata={"published": False})

    @property
    def subject(self) -> str:
        """The artifact's path, with "#" and the signature behind it if the result has one."""
        return f"{self.artifact}#{self.signature}" if self.signature else self.artifact

    @property
    def compared_cases(self) -> int:
        """The number of cases of which at least one value was compared."""
        return sum(any(each.count for each in case.comparisons) for case in self.cases)

    @property
    def compared_share(self) -> float:
        """The share of the values of a case that was compared, as the mean over all cases, from 0 to 1."""
        return sum(map(_compared_share, self.cases)) / len(self.cases) if self.cases else 0.0

    def _one_line(self) -> str:
        where = f" on {self.subject}" if self.artifact else ""
        causes = "".join(f", {each.cause}" for each in self.findings)
        return f"{self.runtime}{where}: {'passed' if self.passed else 'FAILED'}, {len(self.cases)} cases{causes}"

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        rows = {"runtime": self.runtime, "artifact": self.subject, "verdict": "passed" if self.passed else "FAILED"}
        rows |= {"error": self.error} if self.error else {}
        return rows | {f"cause {i}": f"{each.cause}: {each.evidence}" for i, each in enumerate(self.findings, 1)}

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


def _compared_share(case: CaseResult) -> float:
    """Returns the share of the values of a case that was compared; 0 of a case without values."""
    size = sum(prod(each.shape) for each in case.comparisons)
    return sum(each.count for each in case.comparisons) / size if size else 0.0


def _excess(comparison: Comparison) -> tuple[bool, float, float]:
    """Orders comparisons: failures before passes, then by how far out they are."""
    return not comparison.passed, comparison.tolerance_ratio, comparison.max_abs_diff
