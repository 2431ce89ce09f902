"""The result records of `check_dataset`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from keras_pe.display import Shown
from keras_pe.export.parity.parity_report import ParityReport
from keras_pe.export.parity.statistics.confidence import rate, upper_bound
from keras_pe.export.parity.statistics.runtime_statistics import OutputStatistics, RuntimeStatistics
from keras_pe.export.results import AnyResults, Finding, NameMatch, StoredWeights

CONFIDENCE = 0.95
_QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)


@dataclass(frozen=True, repr=False)
class OutputSummary(Shown):
    """One output of one artifact in one runtime, over all rows.

    Attributes:
        output: The name of the output.
        decision: The rule of its decision, such as "argmax" or "> 0.5"; None without a decision.
        noise_floor: The model's own error against its float64 rebuild, in a sample. Without a rebuild, an eighth of the
            tolerance of the type. None if the output is not a float.
        allowed: The tolerance on the absolute difference; None if decisions alone count.
        statistics: The counts and histograms.
    """

    computed: ClassVar[tuple[str, ...]] = ("factor", "quantiles", "expected_accuracy", "actual_accuracy")

    output: str
    decision: str | None
    noise_floor: float | None
    allowed: float | None
    statistics: OutputStatistics

    def details(self) -> Mapping[str, str]:
        over = {} if self.factor is None else {"over floor": f"{self.factor:.2g}"}
        return {"output": repr(self.output), **self.statistics.details(), **over}

    @property
    def factor(self) -> float | None:
        """The largest error in units of the noise floor; None if the output is not a float or was not compared."""
        found = self.statistics
        return found.max_abs_diff / self.noise_floor if self.noise_floor and found.values else None

    @property
    def expected_accuracy(self) -> float | None:
        """The share of the labeled decisions that the reference gets right; None without labels."""
        found = self.statistics
        return found.expected_right / found.labels if found.labels else None

    @property
    def actual_accuracy(self) -> float | None:
        """The share of the labeled decisions that the runtime gets right; None without labels."""
        found = self.statistics
        return found.actual_right / found.labels if found.labels else None

    @property
    def quantiles(self) -> dict[str, float]:
        """A bound on the error for several shares of the rows, at most an eighth too large."""
        return {str(share): self.quantile(share) for share in _QUANTILES}

    def quantile(self, share: float) -> float:
        """Returns a bound on the error of this share of the rows, at most an eighth too large."""
        return min(self.statistics.errors.quantile(share), self.statistics.max_abs_diff)


@dataclass(frozen=True, repr=False)
class DatasetResult(Shown):
    """One artifact in one runtime, over all rows.

    Attributes:
        artifact: The artifact's path.
        format: "onnx", "tf_saved_model" or "litert".
        runtime: The runtime's name.
        version: The package and version of the runtime.
        allow_changed: The share of the rows that may fail, from 0 to 1.
        statistics: The counts over all rows.
        outputs: A summary of each compared output.
        error: The reason that the artifact did not load; empty if it loaded.
        rows_per_second: Rows per second inside the runtime; None if every result came from the checkpoint.
        names: Inputs and outputs with other names in the artifact than in the model, as matched.
        least_compared: The least share of the values that must be compared, from 0 to 1.
        weights: How many of the model's weights the artifact stores; None if unknown.
        findings: One for each damaged stored weight. A damaged weight fails the check, whatever the rows show.
    """

    computed: ClassVar[tuple[str, ...]] = ("passed", "verdict", "upper_bound_95", "compared_share")

    artifact: str
    format: str
    runtime: str
    version: str
    allow_changed: float
    statistics: RuntimeStatistics
    outputs: tuple[OutputSummary, ...] = ()
    error: str = ""
    rows_per_second: float | None = None
    names: tuple[NameMatch, ...] = ()
    least_compared: float = 0.0
    weights: StoredWeights | None = None
    findings: tuple[Finding, ...] = ()

    def details(self) -> Mapping[str, str]:
        return {"runtime": self.runtime, "artifact": self.artifact, "result": self._one_line()}

    def _one_line(self) -> str:
        return f"{self.runtime} on {self.artifact}: {'passed' if self.passed else 'FAILED'}, {self.verdict}"

    @property
    def passed(self) -> bool:
        """Whether enough values of every output were compared, few enough rows fail, and no weight is damaged."""
        found = self.statistics
        compared = bool(self.outputs) and all(each.statistics.rows for each in self.outputs)
        is_enough = compared and found.rows > 0 and self.compared_share > 0 and not self._is_too_little
        return is_enough and found.failed <= self.allow_changed * found.rows and not self.findings

    @property
    def compared_share(self) -> float:
        """The share of the values that were compared, over all rows and outputs, from 0 to 1."""
        values = sum(each.statistics.values for each in self.outputs)
        uncompared = sum(each.statistics.uncompared for each in self.outputs)
        return (values - uncompared) / values if values else 0.0

    @property
    def _is_too_little(self) -> bool:
        return self.compared_share < self.least_compared

    @property
    def upper_bound_95(self) -> float:
        """The upper bound, with 95 % confidence, on the share of similar rows that fail."""
        return upper_bound(self.statistics.failed, self.statistics.rows, CONFIDENCE) if self.statistics.rows else 1.0

    @property
    def verdict(self) -> str:
        """The verdict as a sentence, with its confidence."""
        found = self.statistics
        if self.error:
            return f"not loaded: {self.error}"
        if not found.rows:
            return "no row was run"
        decides = any(output.decision for output in self.outputs)
        message = f"{found.rows:,} rows: {self.changed:,} decisions changed" if decides else f"{found.rows:,} rows"
        if found.unanswered:
            message += f", {found.unanswered:,} without an answer"
        others = found.failed - found.unanswered - (self.changed if decides else 0)
        if others or not (decides or found.unanswered):
            message += f", {max(others, 0):,} {'fail for another reason' if decides else 'out of tolerance'}"
        if self.factor is not None:
            message += f", largest error {self.factor:.2g} times the floor"
        if found.failed < found.rows and self._is_too_little:
            message += (
                f"; {self.compared_share:.0%} of the values were compared, at least {self.least_compared:.0%} are "
                "required (`least_compared`), and the others are NaN or overflow in the model"
            )
        if self.findings:
            message += f"; {len(self.findings):,} stored weights are damaged"
        sure = f"fewer than {rate(self.upper_bound_95)} fail" if found.failed < found.rows else "nearly all fail"
        return f"{message}; with 95 % confidence {sure}"

    @property
    def changed(self) -> int:
        """The number of rows whose decision changed, in the output with the most such rows."""
        return max((each.statistics.changed for each in self.outputs), default=0)

    @property
    def factor(self) -> float | None:
        """The largest error of any output in units of its noise floor."""
        return max((each.factor for each in self.outputs if each.factor is not None), default=None)


@dataclass(frozen=True)
class DatasetResults(AnyResults):
    """The results of a check of a data set.

    Attributes:
        data: The name of the data.
        rows: Number of rows that ran.
        total: Number of rows of the data; None if the data was not read to its end.
        results: A result for each artifact and runtime.
        stopped_early: Whether `stop_after` ended the check.
        reused_rows: Number of rows whose results came from the checkpoint.
        diagnosis: The check of the worst rows, with layers and causes; None if no row fails.
    """

    computed: ClassVar[tuple[str, ...]] = ("passed",)

    data: str
    rows: int
    total: int | None
    results: tuple[DatasetResult, ...]
    stopped_early: bool = False
    reused_rows: int = 0
    diagnosis: ParityReport | None = None

    @property
    def passed(self) -> bool:
        """Whether every runtime passed on all rows. A check without results has failed."""
        return bool(self.results) and not self.stopped_early and all(result.passed for result in self.results)
