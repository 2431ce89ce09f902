"""The report of a data set as it is written as JSON: records with the counts that others may rely on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from keras_pe.export.parity.parity_report import ParityReport
from keras_pe.export.parity.reports.json import Count


@dataclass(frozen=True)
class Bin:
    """One step of a histogram.

    Attributes:
        from_: Its lower edge, which is in it.
        to: Its upper edge, which is in it.
        rows: Rows in it.
    """

    from_: float
    to: float
    rows: Count


@dataclass(frozen=True)
class Nonfinite:
    """Values that are no numbers.

    Attributes:
        expected_nan: NaN of the reference.
        expected_inf: Infinities of the reference.
        actual_nan: NaN of the runtime.
        actual_inf: Infinities of the runtime.
    """

    expected_nan: Count
    expected_inf: Count
    actual_nan: Count
    actual_inf: Count


@dataclass(frozen=True)
class ChangedClass:
    """A change from one class to another.

    Attributes:
        expected: The class of the reference; of a threshold 1 above it, else 0.
        actual: That of the runtime; null where there are too many classes to count pairs.
        count: Decisions.
    """

    expected: Count
    actual: Count | None
    count: Count


@dataclass(frozen=True)
class PublishedOutput:
    """One output of one artifact in one runtime, over all rows.

    Attributes:
        output: Its name.
        decision: How it decides, such as "argmax" or "> 0.5"; null where it does not.
        noise_floor: The model's own error against its float64 rebuild, in a sample; without a rebuild an eighth of what
            the type allows; null for what is no float.
        allowed: The absolute difference that is allowed; null where decisions alone count.
        values: Values compared.
        max_abs_diff: The largest finite difference.
        factor: max_abs_diff / noise_floor; null for what is no float.
        quantiles: By the share of the rows: a difference that they stay within, an eighth too large at most.
        errors: How many rows have their largest difference in each step, from the smallest.
        rows_out_of_tolerance: Rows whose largest difference is more than is allowed, clashes among them.
        clashes: Rows in which a NaN or an infinity stands against something else.
        nonfinite: How many values are NaN or infinite.
        decisions: Decisions taken: one or more a row.
        changed_decisions: Decisions that are others in the runtime.
        changed_rows: Rows with such a decision.
        ties: Changed rows whose decisions all had a margin within the noise.
        changed_classes: Which decisions changed, the most frequent first.
        margin_shares: How many rows have the share that the error takes of a decision's margin in each step; below 1
            none changes.
    """

    output: str
    decision: str | None
    noise_floor: float | None
    allowed: float | None
    values: Count
    max_abs_diff: float
    factor: float | None
    quantiles: Mapping[str, float]
    errors: tuple[Bin, ...]
    rows_out_of_tolerance: Count
    clashes: Count
    nonfinite: Nonfinite
    decisions: Count
    changed_decisions: Count
    changed_rows: Count
    ties: Count
    changed_classes: tuple[ChangedClass, ...]
    margin_shares: tuple[Bin, ...]


@dataclass(frozen=True)
class PublishedProblem:
    """What went wrong with rows, apart from values that differ.

    Attributes:
        message: The runtime's error, or what kept an output from being compared.
        first_row: The first row that it happened to, from 0.
    """

    message: str
    first_row: Count


@dataclass(frozen=True)
class PublishedRow:
    """One row.

    Attributes:
        row: Its number in the data, from 0.
        place: Where it stands.
        severity: How bad it is, before its error counts.
        error: The largest error of an output, in units of what is allowed, or of the noise floor where decisions alone
            count.
        message: The runtime's error where it gave no answer; else empty.
        expected: The reference's outputs, by name.
        actual: The runtime's outputs, by name; none where it gave none.
    """

    row: Count
    place: str
    severity: Literal["agrees", "failed", "clash", "no_answer"]
    error: float
    message: str
    expected: Mapping[str, Any]
    actual: Mapping[str, Any]


@dataclass(frozen=True)
class PublishedResult:
    """One artifact in one runtime, over all rows.

    Attributes:
        artifact: The artifact's path.
        format: "onnx", "tf_saved_model" or "litert".
        runtime: The runtime's name.
        version: Its package and version.
        passed: Whether rows were compared, every output among them, and no more of them fail than may.
        verdict: The same in a sentence, with its confidence.
        message: Why the artifact did not load; empty where it did.
        rows: Rows that were fed.
        failed_rows: Rows that fail in any output, or that the runtime gave no answer to.
        unanswered_rows: Rows that the runtime gave no answer to.
        allow_changed: The share of the rows that may fail, from 0 to 1.
        upper_bound_95: With 95 % confidence a smaller share of all rows like these fails.
        rows_per_second: Rows by the time inside the runtime; null where every result stood in the checkpoint.
        problems: What else went wrong.
        outputs: One for each output that was compared.
        worst_rows: The worst rows, the worst first.
    """

    artifact: str
    format: str
    runtime: str
    version: str
    passed: bool
    verdict: str
    message: str
    rows: Count
    failed_rows: Count
    unanswered_rows: Count
    allow_changed: float
    upper_bound_95: float
    rows_per_second: float | None
    problems: tuple[PublishedProblem, ...]
    outputs: tuple[PublishedOutput, ...]
    worst_rows: tuple[PublishedRow, ...]


@dataclass(frozen=True)
class PublishedReport:
    """A whole check.

    Attributes:
        passed: Whether every runtime passed on all rows; a check that compared nothing has failed.
        model: The reference.
        basis: What differences are measured against, in one sentence.
        data: What the data is called.
        rows: Rows that were run.
        total: Rows of the data; null where it was not read to its end.
        stopped_early: Whether so many rows failed that the check was stopped.
        reused_rows: Rows whose results stood in the checkpoint.
        results: One for each artifact and runtime.
        diagnosis: The check of the worst rows, with layers and causes; null where no row fails.
        versions: The packages that took part.
        seconds: The whole check.
        date: When it was made, such as "2026-01-31T12:00:00+00:00".
        files: The SHA-256 of each file of the artifacts, by its path.
    """

    passed: bool
    model: str
    basis: str
    data: str
    rows: Count
    total: Count | None
    stopped_early: bool
    reused_rows: Count
    results: tuple[PublishedResult, ...]
    diagnosis: ParityReport | None
    versions: Mapping[str, str]
    seconds: float
    date: str
    files: Mapping[str, str]
