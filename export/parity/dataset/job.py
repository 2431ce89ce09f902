"""What travels to a worker: which model and artifacts, which data, and how to feed and compare it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_pe.export.parity.dataset.batching import Batching
from keras_pe.export.parity.dataset.sources.source import Source
from keras_pe.export.parity.dataset.statistics.decisions import Decision
from keras_pe.export.runtimes.runtime import RuntimeSpec


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
        reference: The model: a `.keras` file, or an artifact.
        reference_runtime: The runtime of a reference that is an artifact, None for a model.
        reference_key: A hash of what the reference holds.
        modules: What a worker imports before it loads the model: the modules that registered its layers here.
        targets: What is compared with it.
        source: The data; None where the shards hold their rows.
        data: What the data is called.
        data_columns: The names of the data's columns.
        input_signature: As in `check_parity`.
        columns: The column of an input, where it is not of the input's name.
        batch_size: Rows fed together.
        length_buckets: See `Batching`.
        pad_values: See `Batching`.
        decisions: How outputs decide, by name, where the user said so.
        atol: The absolute difference allowed for an output, by name, where the user said so.
        timeout: Seconds that a runtime may take for one batch.
        one_thread: Whether the process that opens the reference is a worker, whose TensorFlow takes one thread.
    """

    reference: Path
    reference_runtime: RuntimeSpec | None
    reference_key: str
    targets: tuple[Target, ...]
    source: Source | None
    data: str
    data_columns: tuple[str, ...]
    input_signature: Any
    columns: Mapping[str, str]
    batch_size: int
    length_buckets: tuple[int, ...]
    pad_values: Mapping[str, float]
    decisions: Mapping[str, Decision | None]
    atol: Mapping[str, float]
    timeout: float
    one_thread: bool = True
    modules: tuple[str, ...] = ()

    @property
    def session_key(self) -> tuple[str, ...]:
        """What makes two jobs share what a worker has loaded."""
        return (self.reference_key, repr(self.input_signature), *(target.key for target in self.targets))


@dataclass(frozen=True)
class OutputRule:
    """How one output is judged.

    Attributes:
        unit: The noise floor, that of a sample of the rows; without a float64 rebuild an eighth of what the type
            allows. 0 for what is no float.
        allowed: The absolute difference that is allowed, None where decisions alone count.
        decision: How the output decides, None where it does not.
        is_given: Whether `allowed` was given: else a row beyond it is looked at again, with a floor of its own.
    """

    unit: float
    allowed: float | None
    decision: Decision | None
    is_given: bool = False


@dataclass(frozen=True)
class Calibration:
    """What has to be known before the first shard, and is the same for all.

    Attributes:
        model: What the report calls the reference.
        version: Its package and version.
        basis: What differences are measured against, in one sentence.
        batching: How rows become batches.
        rules: How each output is judged.
        unloaded: Why an artifact did not load, by the key of the target.
        versions: The version of each runtime, by the key of the target.
    """

    model: str
    version: str
    basis: str
    batching: Batching
    rules: Mapping[str, OutputRule]
    unloaded: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
