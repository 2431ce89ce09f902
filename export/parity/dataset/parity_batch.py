"""Checks one batch by a callable, for use inside a data engine such as Ray Data or Spark."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.comparison.references.opening import is_path
from keras_pe.export.model.border import Border
from keras_pe.export.parity.data.array_files import open_mapping
from keras_pe.export.parity.data.batching import Batching
from keras_pe.export.parity.data.shards import shards_of, without_parts
from keras_pe.export.parity.data.source import SHARD_ROWS
from keras_pe.export.parity.statistics.runtime_statistics import Severity
from keras_pe.export.parity.work.noise_sample import calibrate
from keras_pe.export.parity.work.open_models import open_artifacts, open_model_file
from keras_pe.export.parity.work.shard import run_rows
from keras_pe.export.parity.work.worker_input import Acceptance, Calibration, Job, refuse_fields
from keras_pe.export.progress import DIAGNOSIS_SECONDS, TIMEOUT, check_seconds
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import RuntimeSpec


class ParityBatch:
    """Reports for each row of a batch whether an artifact differs from the model. The engine counts the rows.

    The first batch loads the model and the runtime, which stay loaded. The first batch also sets the noise floor. A row
    beyond this floor is measured again with its own floor before it fails.

    Ray Data runs a class as an actor, which loads once. A Spark worker keeps the loaded objects from task to task.
    docs/engines.md has a tested script for each.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        artifact: str | os.PathLike[str] | Artifact,
        *,
        runtime: str | RuntimeSpec | None = None,
        batching: Batching | None = None,
        acceptance: Acceptance | None = None,
        input_signature: Any = None,
        border: Border | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """Stores the options; loads nothing.

        Args:
            model: The path of a `.keras` file or of an artifact on the worker.
            artifact: One artifact.
            runtime: The runtime of the artifact; the default is the default runtime of its format.
            batching: The rule that makes batches from rows.
            acceptance: The accepted differences. The fields that concern a whole data set must be left out:
                `stop_after`, `allow_changed` and `least_compared`.
            input_signature: As in `export_onnx`.
            border: As in `check_parity`.
            timeout: Seconds that the runtime may take for a batch.

        Raises:
            ValueError, FileNotFoundError, ImportError: As `check_dataset`.
            TypeError: If `artifact` is not a single artifact.
        """
        check_seconds(timeout, DIAGNOSIS_SECONDS)
        if not is_path(artifact):
            raise ArgTypeError("artifact", f"must be a path, or the result of an export. Received: {artifact!r}.")
        if isinstance(batching, Batching) and batching.sequence is not None:
            raise ArgValueError(
                "sequence",
                "must be left out here, since an engine may divide a sequence between two batches. Give each row a "
                f"whole sequence. Received: sequence={batching.sequence!r}.",
            )
        refuse_fields(acceptance, ("stop_after", "allow_changed", "least_compared"), "One batch is not a data set.")
        reference, targets = open_model_file(model), open_artifacts(artifact, runtime).targets[:1]
        if not targets:
            raise ArgValueError(
                "artifact",
                "must have a format that a chosen and installed runtime accepts. "
                f"Received: artifact={str(artifact)!r}, runtime={runtime!r}.",
            )
        self._job = partial(
            Job,
            reference=reference,
            targets=targets,
            batching=batching or Batching(batch_size=SHARD_ROWS),
            acceptance=acceptance or Acceptance(),
            input_signature=input_signature,
            timeout=timeout,
            border=border,
        )
        self._calibration: Calibration | None = None

    def __call__(self, batch: Mapping[str, Array | Sequence[Any]]) -> dict[str, Array]:
        """Returns two arrays with a value for each row.

        Args:
            batch: The columns by name. Columns that no input takes are ignored.

        Returns:
            "failed", whether the row fails, and "error", the largest error of the row. The unit of the error is the
            tolerance, or the noise floor if decisions alone count. The error is infinity if the runtime returned no
            answer.

        Raises:
            DataError: If the batch does not fit the model.
        """
        source = open_mapping(batch, "the batch")
        shards = tuple(shards_of(source))
        job = self._job(source=without_parts(source))
        if self._calibration is None:
            self._calibration = calibrate(job, shards[:1])
        found = [run_rows(job, self._calibration, shard) for shard in shards]
        severity, error = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return {"failed": severity > Severity.AGREES, "error": error}
