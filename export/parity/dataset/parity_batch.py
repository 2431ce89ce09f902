"""The check of one batch as a callable, for those who are inside a data engine already: Ray Data, Spark and others."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.parity.dataset.calibration import calibrate
from keras_pe.export.parity.dataset.job import Calibration, Job
from keras_pe.export.parity.dataset.opening import open_model_file, open_targets
from keras_pe.export.parity.dataset.shard import run_rows
from keras_pe.export.parity.dataset.sources.arrays import InMemory
from keras_pe.export.parity.dataset.sources.source import SHARD_ROWS
from keras_pe.export.parity.dataset.statistics.decisions import parse_decision
from keras_pe.export.parity.dataset.statistics.worst import Severity
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import RuntimeSpec


class ParityBatch:
    """Tells of each row of a batch whether an artifact says what the model says. The engine counts.

    The model and the runtime are loaded with the first batch, and kept. The noise floor is that of the first batch; a
    row beyond it is measured again, with a floor of its own, before it fails.

    With Ray Data a class is an actor, which loads once:

        rows = ray.data.read_parquet("data").map_batches(
            ParityBatch, fn_constructor_args=("model.keras", "model.onnx"), batch_size=1024, concurrency=(1, 4)
        )
        failed = rows.sum("failed")

    With Spark a Python worker keeps what it has loaded from task to task:

        def check(frames):
            parity = ParityBatch("model.keras", "model.onnx")
            for frame in frames:
                yield frame[["id"]].assign(**parity({"x": np.stack(frame["x"])}))

        rows.mapInPandas(check, "id string, failed boolean, error double")

    Both are whole scripts in docs/engines.md, which tests run.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        artifact: str | os.PathLike[str] | Artifact,
        *,
        runtime: str | RuntimeSpec | None = None,
        columns: Mapping[str, str] | None = None,
        decisions: Mapping[str, str | float | None] | None = None,
        atol: Mapping[str, float] | None = None,
        input_signature: Any = None,
        timeout: float = 120.0,
    ) -> None:
        """Remembers what to load.

        Args:
            model: The path of a `.keras` file or of an artifact, where the worker finds it.
            artifact: What to check, one artifact.
            runtime: The runtime to check it in; the default one of its format if it is left out.
            columns: As in `check_dataset`.
            decisions: As in `check_dataset`.
            atol: As in `check_dataset`.
            input_signature: As in `export_onnx`.
            timeout: Seconds that the runtime may take for a batch.

        Raises:
            ValueError, FileNotFoundError, ImportError: As `check_dataset`.
        """
        opened = open_model_file(Path(model))
        self._job = Job(
            reference=opened.path,
            reference_runtime=opened.runtime,
            reference_key=opened.key,
            modules=opened.modules,
            targets=open_targets(artifact, None if runtime is None else [runtime])[:1],
            source=None,
            data="the batch",
            data_columns=(),
            input_signature=input_signature,
            columns=dict(columns or {}),
            batch_size=SHARD_ROWS,
            length_buckets=(),
            pad_values={},
            decisions={name: parse_decision(given) for name, given in (decisions or {}).items()},
            atol=dict(atol or {}),
            timeout=timeout,
        )
        self._calibration: Calibration | None = None

    def __call__(self, batch: Mapping[str, Array | Sequence[Any]]) -> dict[str, Array]:
        """Returns two arrays with a value for each row.

        Args:
            batch: The columns by name; those that are no inputs are left out.

        Returns:
            "failed", whether the row fails, and "error", its largest error in units of what is allowed, or of the noise
            floor where decisions alone count; infinity where the runtime gave no answer.

        Raises:
            DataError: If the batch does not fit the model.
        """
        source = InMemory(batch, "the batch")
        shards = tuple(source.shards())
        if self._calibration is None:
            job = replace(self._job, data_columns=source.columns)
            self._calibration = calibrate(job, shards[:1])
        found = [run_rows(self._job, self._calibration, shard) for shard in shards]
        severity = np.concatenate([rows.severity for rows in found])
        return {"failed": severity > Severity.AGREES, "error": np.concatenate([rows.error for rows in found])}
