"""What travels to a worker: which model and artifacts, which data, and how to feed and judge it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.comparison.decisions import Decision, parse_decision
from keras_pe.export.comparison.declarations import Declarations
from keras_pe.export.comparison.law import Law, accepting
from keras_pe.export.errors import check_type
from keras_pe.export.model.border import Border
from keras_pe.export.model.signature.given import by_name
from keras_pe.export.parity.data.batching import Batching, Feed
from keras_pe.export.parity.data.source import DataSource
from keras_pe.export.results import Allowance, Array, Finding, NameMatch, StoredWeights
from keras_pe.export.runtimes.runtime import RuntimeSpec


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Which outputs of a data set decide, and after how many failed rows it is enough.

    By default 8 times the noise floor is allowed in outputs that do not decide, and any difference in those that do. A
    tolerance of the check holds for the outputs that decide as well.

    Attributes:
        decisions: How an output decides, by its name: "argmax", "top5", a threshold, or None where it does not. By
            default outputs that look like probabilities decide by the largest, or by 0.5.
        stop_after: Stop when so many rows have failed. The check has not passed then.
        labels: The column of the right classes, by the name of the output that decides them; the column alone if one
            output decides. The report has the accuracy of the model and of each artifact then. A label is the number of
            a class, a row of one-hot values, or 0 or 1 for a threshold; a negative label is left out.

    Raises:
        TypeError: If decisions or labels are not a mapping from names.
        ValueError: If one of them makes no sense.
    """

    decisions: Mapping[str, str | float | None] = field(default_factory=dict)
    stop_after: int | None = None
    labels: str | Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the arguments."""
        object.__setattr__(self, "decisions", by_name("decisions", self.decisions))
        if not isinstance(self.labels, str):
            object.__setattr__(self, "labels", by_name("labels", self.labels))
        for given in self.decisions.values():
            parse_decision(given)
        if self.stop_after is not None and not (isinstance(self.stop_after, Integral) and self.stop_after >= 1):
            raise ValueError(f"`stop_after` must be at least 1 row. Received: stop_after={self.stop_after!r}.")


@dataclass(frozen=True)
class OpenedModel:
    """A reference that workers can open.

    Attributes:
        path: A `.keras` file or an artifact.
        key: A hash of what it holds.
        modules: What a worker imports before it loads the model: the modules that registered its layers here.
        allows_code: Whether the code of lambdas may be loaded, as it may here.
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
        key: A hash of both: of what the artifact holds, and of the runtime and its version.
    """

    path: Path
    spec: RuntimeSpec
    key: str


@dataclass(frozen=True)
class Job:
    """What every shard has in common. It holds paths, so it is small wherever it is sent.

    Attributes:
        reference: The model.
        targets: What is compared with it.
        source: The data, as far as a worker needs it.
        batching: How rows become batches.
        acceptance: Which outputs decide, and when to stop.
        allowance: What the user accepts.
        input_signature: As in `check_parity`.
        timeout: Seconds that a runtime may take for one batch.
        border: As in `check_parity`.
        one_thread: Whether the process that opens the reference is a worker, whose TensorFlow takes one thread.
    """

    reference: OpenedModel
    targets: tuple[Target, ...]
    source: DataSource
    batching: Batching
    acceptance: Acceptance
    allowance: Allowance
    input_signature: Any
    timeout: float
    border: Border | None = None
    one_thread: bool = True

    def __post_init__(self) -> None:
        """Refuses what a worker would fail at, as if it had died."""
        check_type("batching", self.batching, Batching)
        check_type("acceptance", self.acceptance, Acceptance)
        if self.border is not None:
            check_type("border", self.border, Border)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the data that hold labels."""
        labels = self.acceptance.labels
        return (labels,) if isinstance(labels, str) else tuple(dict.fromkeys(labels.values()))

    @property
    def law(self) -> Law:
        """How much is allowed, and what is looked at."""
        return accepting(self.allowance)

    @property
    def session_key(self) -> tuple[str, ...]:
        """What makes two jobs share what a worker has loaded."""
        of_job = (self.reference.key, repr(self.input_signature), repr(self.timeout), repr(self.border))
        return (*of_job, *(target.key for target in self.targets))


@dataclass(frozen=True)
class OutputRule:
    """How one output is judged.

    Attributes:
        unit: The noise floor, that of a sample of the rows; without a float64 rebuild an eighth of what the type
            allows. 0 for what is no float.
        allowed: The absolute difference that is allowed of a value of 0, None where decisions alone count.
        decision: How the output decides, None where it does not.
        is_final: Whether `allowed` holds for every row. It does where the output decides, where no float64 rebuild has
            it, and where a precision is accepted; else a row beyond it is looked at again, with a floor of its own.
        channels: Where a precision is accepted, what is allowed in each channel of the last axis, and the largest
            value of the channel in the sample: more is allowed of a larger one. Empty where none is.
        label: The column of the right classes, None if there is none.
    """

    unit: float
    allowed: float | None
    decision: Decision | None
    is_final: bool = False
    channels: tuple[tuple[float, float], ...] = ()
    label: str | None = None

    def allowed_of(self, expected: Array) -> Array:
        """Returns what is allowed of each value in an accepted precision, whatever the other rows are."""
        allowed, largest = np.array(self.channels, np.float64).T
        magnitude = np.abs(expected.astype(np.float64))
        scale = np.divide(magnitude, largest, where=largest > 0, out=np.ones_like(magnitude))
        found: Array = allowed * np.where(np.isfinite(scale), np.maximum(scale, 1.0), 1.0)
        return found


@dataclass(frozen=True)
class TargetCalibration:
    """What was found of one target before the first shard.

    Attributes:
        version: The package and version of its runtime.
        error: Why it did not load; empty where it did.
        names: The inputs and outputs that the artifact calls otherwise.
        rules: How each output is judged, by its name.
        in_float32: Whether it computes in float32 where the model computes in 16 bits: it is measured against the
            model's float32 rebuild.
        declarations: What it declares of its outputs.
        weights: How much of the model's weights it stores; None if that is not known.
        findings: One for each stored weight that is damaged.
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
    """What has to be known before the first shard, and is the same for all.

    Attributes:
        model: What the report calls the reference.
        version: Its package and version.
        basis: What differences are measured against, in one sentence.
        feed: How rows become batches.
        targets: What was found of each target, by its key.
    """

    model: str
    version: str
    basis: str
    feed: Feed
    targets: Mapping[str, TargetCalibration]
