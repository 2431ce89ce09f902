"""Records of a whole check: accepted differences, results, and exercised inputs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import ClassVar

import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.results.diagnosis import Finding
from keras_pe.export.results.runs import RuntimeResult, SkippedRuntime

HALF = ("float16", "bfloat16")
"""The floats of 16 bits."""

PRECISIONS = (*HALF, "int8", "int4")
"""The precisions whose rounding may be accepted."""


@dataclass(frozen=True)
class Allowance:
    """Differences that a user accepts, as in an artifact that is stored in fewer bits.

    Nothing is accepted by default. Each of these widens the strict tolerance.

    Attributes:
        rtol: The difference allowed, as a share of the magnitude of the value expected.
        atol: The absolute difference allowed, added to that of `rtol`: in every output, or by the name of the output.
        precision: "float16", "bfloat16", "int8" or "int4" (weights alone). Outputs may be of that type. Each value may
            be off by 8 times the error of such a rounding. That error is measured on weights, inputs and layers'
            outputs, in the value's channel, row or position of the model's own answer. Stored weights may be off by the
            rounding to their own format.
        allow_changed: The share of decisions that may change, for any values of the other three. In a data set the
            decisions are rows. In a sweep they are values of an integer output, and rows of an output of probabilities
            or scores from 0 to 1.

    Raises:
        ValueError: If one of them makes no sense.
    """

    rtol: float = 0.0
    atol: float | Mapping[str, float] = 0.0
    precision: str | None = None
    allow_changed: float = 0.0

    def __post_init__(self) -> None:
        """Refuses what makes no sense."""
        of_outputs = self.atol if isinstance(self.atol, Mapping) else {"": self.atol}
        for name, value in (("rtol", self.rtol), *(("atol", value) for value in of_outputs.values())):
            if not (isinstance(value, Real) and 0 <= value < np.inf):
                raise ArgValueError(name, f"must be at least 0, and finite. Received: {name}={value!r}.")
        if self.precision is not None and self.precision not in PRECISIONS:
            raise ArgValueError(
                "precision",
                f"must be one of: {', '.join(PRECISIONS)}; or None, for the model's own. "
                f"Received: precision={self.precision!r}.",
            )
        if not (isinstance(self.allow_changed, Real) and 0 <= self.allow_changed <= 1):
            raise ArgValueError("allow_changed", f"must be a share, from 0 to 1. Received: {self.allow_changed!r}.")

    @property
    def is_none(self) -> bool:
        """Whether nothing is accepted."""
        return self == Allowance()

    def atol_of(self, output: str) -> float:
        """Returns the absolute difference allowed in an output."""
        return self.atol.get(output, 0.0) if isinstance(self.atol, Mapping) else self.atol

    def check_outputs(self, outputs: Iterable[str]) -> None:
        """Raises ValueError unless every output that was named is one of these."""
        known = list(outputs)
        unknown = sorted(set(self.atol) - set(known)) if isinstance(self.atol, Mapping) else []
        if unknown:
            raise ArgValueError("atol", f"must be of outputs: {', '.join(known)}. Received: {', '.join(unknown)}.")

    def __str__(self) -> str:
        parts = [f"rtol {self.rtol:g}"] if self.rtol else []
        if isinstance(self.atol, Mapping):
            parts += [f"atol {value:g} in {name!r}" for name, value in self.atol.items()]
        elif self.atol:
            parts.append(f"atol {self.atol:g}")
        parts += [f"rounding to {self.precision}"] if self.precision else []
        parts += [f"{100 * self.allow_changed:g} % changed decisions"] if self.allow_changed else []
        return ", ".join(parts) or "nothing"


@dataclass(frozen=True)
class TableCoverage:
    """How much of a table was read, over all cases together.

    Attributes:
        input: The input whose ids are its rows.
        rows: How many it has.
        read: Number of rows that were read.
    """

    input: str
    rows: int
    read: int


@dataclass(frozen=True)
class Coverage:
    """Inputs that the cases have exercised and the reference has answered.

    Compared weights and branches of conditions are fields of each artifact.

    Attributes:
        sizes: The sizes of each dynamic dimension, by its name, in ascending order.
        tables: One for each input of ids.
        signatures: The signatures of LiteRT files that no case fits, such as "model.tflite#length_16".
    """

    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tables: tuple[TableCoverage, ...] = ()
    signatures: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseInfo:
    """One case of the sweep.

    Attributes:
        name: Unique in the report.
        inputs: Each input as text, such as "float32 (3, 67, 8)".
        purpose: Purpose of the case.
        error: The reference's error where it refuses the case, else None. Nothing is compared then, but a runtime that
            answers all the same has failed, unless the model compiled answers it as well.
    """

    name: str
    inputs: Mapping[str, str]
    purpose: str
    error: str | None = None


@dataclass(frozen=True)
class Stage:
    """A part of a check.

    Attributes:
        name: Name of the stage.
        seconds: How long it took.
        processor_seconds: Processor time of this process, over all its threads; a runtime has a process of its own.
        runtime_seconds: Duration of the runs inside the runtime, if the stage is one's; else None.
    """

    name: str
    seconds: float
    processor_seconds: float
    runtime_seconds: float | None = None


@dataclass(frozen=True)
class AnyResults:
    """Fields of every check.

    Attributes:
        model: The Keras model's name, an artifact's path, or that of the stored outputs.
        reference: Reference and tolerance of the differences, in one sentence.
        allowance: Accepted differences beside the tolerance; empty for the strict policy.
        versions: The packages that took part.
        seconds: The whole check.
        date: When it was made, such as "2026-01-31T12:00:00+00:00".
        skipped: Runtimes that would take an artifact and are not installed.
        files: The SHA-256 of each file of the artifacts, by its path.
    """

    model: str
    reference: str
    allowance: Allowance = field(default_factory=Allowance, kw_only=True)
    versions: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)
    date: str = field(default="", kw_only=True)
    skipped: tuple[SkippedRuntime, ...] = field(default=(), kw_only=True)
    files: Mapping[str, str] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True)
class CheckResults(AnyResults):
    """Results of a whole check.

    Attributes:
        cases: The inputs.
        results: One for each artifact and runtime.
        seed: The seed of the sweep.
        stages: The parts of the check, in their order.
        coverage: Inputs that the cases have exercised.
    """

    computed: ClassVar[tuple[str, ...]] = ("passed", "compared")
    """The properties that are published beside the fields."""

    cases: tuple[CaseInfo, ...]
    results: tuple[RuntimeResult, ...]
    seed: int = 0
    stages: tuple[Stage, ...] = ()
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def passed(self) -> bool:
        """Whether every runtime passed; a check that compared nothing has failed."""
        return bool(self.results) and all(result.passed for result in self.results)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The causes found in all runtimes."""
        return tuple(dict.fromkeys(finding for result in self.results for finding in result.findings))

    @property
    def compared(self) -> int:
        """How many values were compared."""
        return sum(c.count for result in self.results for case in result.cases for c in case.comparisons)
