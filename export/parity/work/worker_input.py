"""The data that a worker receives: the model, the artifacts, the data source, and rules of feeding and comparing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.comparison.declared_shapes import Declarations
from keras_pe.export.comparison.output_decisions import Decision, parse_decision
from keras_pe.export.comparison.tolerance import TolerancePolicy, accepting
from keras_pe.export.errors import check_share, check_type
from keras_pe.export.model.border import Border
from keras_pe.export.model.signature.caller_arguments import by_name
from keras_pe.export.parity.data.batching import Batching, Feed
from keras_pe.export.parity.data.source import DataSource
from keras_pe.export.parity.work.sequence_calls import SequenceCalls
from keras_pe.export.results import Allowance, Array, Finding, NameMatch, StoredWeights
from keras_pe.export.runtimes.runtime import RuntimeSpec


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """The differences that a check of a data set accepts.

    By default, an output that decides may differ by any amount, and another output by 8 times the noise floor. A
    tolerance also applies to the outputs that decide.

    Attributes:
        decisions: The decision rule of an output, by its name: "argmax", "top5", a threshold, or None for no decision.
            By default, outputs that look like probabilities decide by the largest value, or by 0.5.
        stop_after: The number of failed rows that stops the check. A stopped check has not passed.
        labels: The column of the right classes, by the name of the output that decides; only the column if one output
            decides. The report then has the accuracy of the model and of each artifact. A label is the index of a
            class, a row of one-hot values, or 0 or 1 for a threshold. A negative label is ignored.
        rtol, atol, precision: As in `check_parity`.
        allow_changed: The share of the rows that may fail, from 0 to 1. A damaged stored weight always fails the check.
            A weight is damaged if it differs from the model's. If an output decides or more is accepted, a weight is
            damaged only if rounding to its own format does not explain the difference.
        least_compared: The least share of the values of all rows that must be compared, from 0 to 1. Values are not
            compared if both sides are NaN, or the value exceeds the range of the model's own floats.

    Raises:
        TypeError: If `decisions` or `labels` is not a mapping from names.
        ValueError: If a decision rule or a number is not valid.
    """

    decisions: Mapping[str, str | float | None] = field(default_factory=dict)
    stop_after: int | None = None
    labels: str | Mapping[str, str] = field(default_factory=dict)
    rtol: float = 0.0
    atol: float | Mapping[str, float] = 0.0
    precision: str | None = None
    allow_changed: float = 0.0
    least_compared: float = 0.5

    def __post_init__(self) -> None:
        """Checks the arguments."""
        object.__setattr__(self, "decisions", by_name("decisions", self.decisions))
        if not isinstance(self.labels, str):
            object.__setattr__(self, "labels", by_name("labels", self.labels))
        for given in self.decisions.values():
            parse_decision(given)
        if self.stop_after is not None and not (isinstance(self.stop_after, Integral) and self.stop_after >= 1):
            raise ArgValueError("stop_after", f"must be at least 1 row. Received: stop_after={self.stop_after!r}.")
        check_share("least_compared", self.least_compared)
        allowance_of(self)  # it checks its own numbers


def allowance_of(acceptance: Acceptance) -> Allowance:
    """Returns the accepted differences of values and decisions."""
    return Allowance(acceptance.rtol, acceptance.atol, acceptance.precision, acceptance.allow_changed)


def refuse_fields(acceptance: Acceptance | None, names: Iterable[str], reason: str) -> None:
    """Raises ValueError if a field of these differs from its default, since the caller does not read it."""
    for name in names if isinstance(acceptance, Acceptance) else ():  # the job refuses another type
        if (given := getattr(acceptance, name)) != getattr(Acceptance(), name):
            raise ArgValueError(name, f"must be left out here. {reason} Received: {name}={given!r}.")


@dataclass(frozen=True)
class OpenedModel:
    """A reference that workers can open.

    Attributes:
        path: A `.keras` file or an artifact.
        key: A hash of its content.
        modules: Modules that registered the model's layers in this process. A worker imports them before it loads.
        allows_code: Whether a worker may load the code of lambdas, as this process may.
    """

    path: Path
    key: str
    modules: tuple[str, ...] = ()
    allows_code: bool = False


@dataclass(frozen=True)
class Target:
    """One artifact in one runtime.

    Attributes:
        path: The artifact.
        spec: The runtime.
        key: A hash of the artifact's content, the runtime and its version.
    """

    path: Path
    spec: RuntimeSpec
    key: str


@dataclass(frozen=True)
class Job:
    """The common data of all shards, small enough to send to any worker because files are given by path.

    Attributes:
        reference: The model.
        targets: The artifacts in their runtimes.
        source: The part of the data source that a worker needs.
        batching: The rule that makes batches from rows.
        acceptance: The differences that the user accepts.
        input_signature: As in `check_parity`.
        timeout: Seconds that a runtime may take for one batch.
        border: As in `check_parity`.
        one_thread: Whether a worker opens the reference. TensorFlow then takes one thread.
    """

    reference: OpenedModel
    targets: tuple[Target, ...]
    source: DataSource
    batching: Batching
    acceptance: Acceptance
    input_signature: Any
    timeout: float
    border: Border | None = None
    one_thread: bool = True

    def __post_init__(self) -> None:
        """Checks the types here, since a worker would fail on them as if it had died."""
        check_type("batching", self.batching, Batching)
        check_type("acceptance", self.acceptance, Acceptance)
        if self.border is not None:
            check_type("border", self.border, Border)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of labels in the data."""
        labels = self.acceptance.labels
        return (labels,) if isinstance(labels, str) else tuple(dict.fromkeys(labels.values()))

    @property
    def allowance(self) -> Allowance:
        """The accepted differences of values and decisions."""
        return allowance_of(self.acceptance)

    @property
    def policy(self) -> TolerancePolicy:
        """The tolerance policy of the job."""
        return accepting(self.allowance)

    @property
    def session_key(self) -> tuple[str, ...]:
        """The key of the session. Jobs with equal keys share the objects that a worker has loaded."""
        of_job = (self.reference.key, repr(self.input_signature), repr(self.timeout), repr(self.border))
        return (*of_job, *(target.key for target in self.targets))


@dataclass(frozen=True)
class OutputRule:
    """The rule that compares one output.

    Attributes:
        unit: The noise floor of a sample of the rows. Without a float64 rebuild, an eighth of the tolerance of the
            type. 0 if the output is not a float.
        allowed: The tolerance on the absolute difference at a value of 0; None if decisions alone count.
        decision: The decision rule of the output; None without a decision.
        is_final: Whether `allowed` holds for every row. It holds if the output decides, no float64 rebuild returns the
            output, or a precision is accepted. Otherwise, a row beyond it is measured again with its own floor.
        channels: The tolerance of an accepted precision for each channel of the last axis, with the channel's largest
            value in the sample. The tolerance grows with values beyond the sample's. Empty without such a precision.
        label: The column of the right classes; None without labels.
    """

    unit: float
    allowed: float | None
    decision: Decision | None
    is_final: bool = False
    channels: tuple[tuple[float, float], ...] = ()
    label: str | None = None

    def allowed_of(self, expected: Array) -> Array:
        """Returns the tolerance of each value in an accepted precision, independent of the other rows."""
        allowed, largest = np.array(self.channels, np.float64).T
        magnitude = np.abs(expected.astype(np.float64))
        scale = np.divide(magnitude, largest, where=largest > 0, out=np.ones_like(magnitude))
        found: Array = allowed * np.where(np.isfinite(scale), np.maximum(scale, 1.0), 1.0)
        return found


@dataclass(frozen=True)
class TargetCalibration:
    """The calibration of one target before the first shard.

    Attributes:
        version: The package and version of the runtime.
        error: The reason that the artifact did not load; empty if it loaded.
        names: Inputs and outputs with other names in the artifact than in the model.
        rules: The rule of each output, by its name.
        in_float32: Whether the runtime computes in float32 but the model in 16 bits. The reference is then the model's
            float32 rebuild.
        declarations: The declarations of the artifact about its outputs.
        weights: How many of the model's weights the artifact stores; None if unknown.
        findings: One for each damaged stored weight.
    """

    version: str = ""
    error: str = ""
    names: tuple[NameMatch, ...] = ()
    rules: Mapping[str, OutputRule] = field(default_factory=dict)
    in_float32: bool = False
    declarations: Declarations = field(default_factory=Declarations)
    weights: StoredWeights | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """The results of the sample, which all shards share.

    Attributes:
        model: The name of the reference in the report.
        version: The package and version of the reference.
        basis: One sentence that names the reference of the differences.
        feed: The conversion of rows to batches.
        targets: The calibration of each target, by its key.
        calls: The calls of a row; None if a row is one call.
    """

    model: str
    version: str
    basis: str
    feed: Feed
    targets: Mapping[str, TargetCalibration]
    calls: SequenceCalls | None = None
