"""Runs every row of a data set through a model and its exported artifacts."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.read_artifact import hash_artifacts
from keras_pe.export.comparison.differences import differences
from keras_pe.export.comparison.references.opening import Source
from keras_pe.export.model.border import Border
from keras_pe.export.parity.check_parity import check_parity
from keras_pe.export.parity.data.batching import Batching, Feed, fill_up, fixed_size
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.sequences import join_sequences
from keras_pe.export.parity.data.shards import shards_of, without_parts
from keras_pe.export.parity.data.source import DataError, DataSource
from keras_pe.export.parity.dataset.data_report import DatasetReport
from keras_pe.export.parity.dataset.dataset_records import DatasetResult, OutputSummary
from keras_pe.export.parity.parity_report import ParityReport, not_installed, untaken, versions_of
from keras_pe.export.parity.statistics.runtime_statistics import OutputStatistics, RuntimeStatistics, WorstRow
from keras_pe.export.parity.work.executors import Here, ProcessPool
from keras_pe.export.parity.work.open_models import open_artifacts, opened_model
from keras_pe.export.parity.work.schedule import Checkpoint, Schedule
from keras_pe.export.parity.work.shard import Tally, shard_batches
from keras_pe.export.parity.work.worker_input import Acceptance, Calibration, Job, Target, TargetCalibration
from keras_pe.export.processes.foreign_code import foreign_code
from keras_pe.export.processes.temporary_folder import TemporaryFolder
from keras_pe.export.progress import DIAGNOSIS_SECONDS, TIMEOUT, Stopwatch, Tell, check_seconds, date, telling
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.protocols import Model

_IN_FLIGHT = 32
"""Number of shards in flight for an executor of unknown size."""


@foreign_code()
def check_dataset(
    model: Model | Source,
    artifacts: Source | Sequence[Source],
    data: Any,
    *,
    batching: Batching | None = None,
    acceptance: Acceptance | None = None,
    runtimes: str | RuntimeSpec | Sequence[str | RuntimeSpec] | None = None,
    input_signature: Any = None,
    border: Border | None = None,
    workers: int | Executor | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT,
    diagnosis_seconds: float = DIAGNOSIS_SECONDS,
    progress: Tell | bool | None = None,
) -> DatasetReport:
    """Runs every row of a data set through a model and its artifacts, and counts the rows on which they differ.

    A row fails if a decision changes or an output without a decision is out of tolerance. A row also fails if only one
    side has a NaN or an infinity, or if the runtime returns no answer. The data is divided into shards, whose small
    results merge. The statistics are equal byte for byte, for all executors and for all orders of the shards.

    Args:
        model: The reference: a built `keras.Model`, the path of a `.keras` or `.h5` file, or an artifact.
        artifacts: One or several artifacts, as returned by an export or by path.
        data: A path, a mapping of names to arrays, a `tf.data.Dataset`, a `keras.utils.PyDataset`, a
            `datasets.Dataset`, a `DataSource`, or data of a registered connector. The path is a `.csv`, `.npz`, `.npy`,
            `.parquet`, `.arrow` or `.tfrecord` file, or a folder with files of one kind other than `.npz`. Targets
            of `(inputs, targets)` and columns that no input takes are dropped. A file is never loaded whole, except
            arrays in column order in a compressed `.npz` file.
        batching: The rule that makes batches from rows: columns, size, lengths and padding.
        acceptance: The accepted differences: the outputs that decide, tolerances, the share of rows that may fail, and
            the number of failed rows that stops the check.
        runtimes: As in `check_parity`.
        input_signature: As in `export_onnx`, for models whose input signature cannot be inferred.
        border: As in `check_parity`. All artifacts must share it. Rows may be in the model's layout.
        workers: Number of processes on this machine; the default is one for each processor. With 0, this process runs
            all rows, and can run models that no other process can load. A `concurrent.futures.Executor`, such as
            `dask.distributed.Client.get_executor()`, replaces the local processes. Its workers must be able to read the
            paths of this call. The check does not shut it down.
        checkpoint_dir: A folder that keeps the shards' results. An equal call reuses them and runs only the missing
            shards. A change of the model, the artifacts, the data or the options starts anew.
        timeout: Seconds that a runtime may take to load, or to answer one batch, before it counts as hung.
        diagnosis_seconds: As in `check_parity`, for the worst rows.
        progress: A function that takes the number of finished rows, the number of rows of the data or None if unknown,
            and the current step. True shows a bar, as in `check_parity`.

    Returns:
        The report. It has not passed if nothing was compared.

    Raises:
        ValueError: If an argument is not valid; a `DataError` if the data cannot be read or does not fit the model.
        TypeError: If the type of `data` is not supported.
        ImportError: If a runtime, or a package that reads the data, is not installed.
        FileNotFoundError: If a file is missing.
        OSError: If a result cannot be written.
        RuntimeError: If code of the model, the data or a plug-in raises SystemExit.
        BrokenExecutor: If workers keep dying. `checkpoint_dir` keeps the finished results.
    """
    watch = Stopwatch()
    check_seconds(timeout, diagnosis_seconds)
    executor, count = _split_workers(workers)
    is_here = executor is None and count == 0
    source = open_source(data)
    if isinstance(batching, Batching) and batching.sequence is not None:  # the job refuses another type
        source = join_sequences(source, batching.sequence)
    targets, left_over, jobs = open_artifacts(artifacts, runtimes)
    with ExitStack() as stack:
        tell = stack.enter_context(telling(progress, "rows"))
        tell(0, source.rows, "loading the model")
        home = Path(checkpoint_dir) if checkpoint_dir else stack.enter_context(TemporaryFolder()).path
        checkpoint = Checkpoint(home)
        job = Job(
            reference=stack.enter_context(opened_model(model, home.absolute(), in_process=is_here)),
            targets=targets,
            source=without_parts(source),
            batching=batching or Batching(),
            acceptance=acceptance or Acceptance(),
            input_signature=input_signature,
            timeout=timeout,
            border=border,
            one_thread=not is_here,
        )
        pool = executor or (ProcessPool(count) if count else Here())
        if executor is None:
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        schedule = Schedule(pool, job, source, checkpoint, _IN_FLIGHT if executor else max(1, 2 * count), tell)
        calibration = schedule.calibrate()
        schedule.run(calibration)
        tell(schedule.rows, source.rows, "looking at the worst rows")
        results = [
            _result(target, calibration.targets[target.key], schedule.tallies.get(target.key), job.acceptance)
            for target in targets
        ]
    diagnosis = _diagnose(model, job, calibration, source, results, diagnosis_seconds)
    watch.stage("all rows")
    return DatasetReport(
        model=calibration.model,
        reference=calibration.basis,
        allowance=job.allowance,
        data=source.name,
        rows=schedule.rows,
        total=source.rows,
        results=(*results, *(_not_run(*each, job.acceptance.allow_changed) for each in left_over)),
        stopped_early=schedule.stopped,
        reused_rows=schedule.reused,
        diagnosis=diagnosis,
        skipped=not_installed(jobs),
        versions=versions_of([calibration.version, *(found.version for found in calibration.targets.values())]),
        seconds=watch.stages[-1].seconds,
        date=date(),
        files=hash_artifacts([*(target.path for target in targets), *(path for _, path in left_over)]),
    )


def _processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _split_workers(workers: int | Executor | None) -> tuple[Executor | None, int]:
    """Returns the executor of the caller, or else the number of processes on this machine."""
    if isinstance(workers, Executor):
        return workers, 0
    if workers is not None and not (isinstance(workers, Integral) and workers >= 0):
        raise ArgValueError("workers", f"must be an executor, or at least 0. Received: workers={workers!r}.")
    return None, _processors() if workers is None else int(workers)


def _not_run(format: str, path: Path, allow_changed: float) -> DatasetResult:
    """Returns a failed result for an artifact that no runtime ran."""
    return DatasetResult(str(path), format, "none", "", allow_changed, RuntimeStatistics(), error=untaken(format))


def _result(target: Target, calibrated: TargetCalibration, tally: Tally | None, accepted: Acceptance) -> DatasetResult:
    """Returns the result of one artifact in one runtime. `tally` is None if the artifact did not load."""
    found = tally or Tally()
    measured, none = found.statistics.outputs, OutputStatistics()
    outputs = tuple(
        OutputSummary(
            output=name,
            decision=None if rule.decision is None else str(rule.decision),
            noise_floor=rule.unit or None,
            allowed=rule.allowed,
            statistics=measured.get(name, none),
        )
        for name, rule in calibrated.rules.items()
    )
    return DatasetResult(
        artifact=str(target.path),
        format=target.spec.format,
        runtime=target.spec.name,
        version=calibrated.version,
        allow_changed=accepted.allow_changed,
        least_compared=accepted.least_compared,
        statistics=found.statistics,
        outputs=outputs,
        error=calibrated.error,
        rows_per_second=found.rows / found.seconds if found.seconds else None,
        names=calibrated.names,
        weights=calibrated.weights,
        findings=calibrated.findings,
    )


def _diagnose(
    model: Any,
    job: Job,
    calibration: Calibration,
    source: DataSource,
    results: Sequence[DatasetResult],
    seconds: float,
) -> ParityReport | None:
    """Returns the check of the worst rows of the failing runtimes; None if no runtime fails.

    Failing rows of equal shape are fed together. If every runtime passes them, the original batch of each worst row is
    read and fed again. A source that yields other rows on its second reading has no such batch.
    """
    pairs = [(target, result.statistics.failing) for target, result in zip(job.targets, results, strict=True)]
    targets, failing = [target for target, rows in pairs if rows], [rows for _, rows in pairs if rows]
    takes = calibration.feed.inputs
    as_call: Callable[[Mapping[str, Array]], Mapping[str, Array]] = dict
    if calibration.calls is not None:
        as_call = calibration.calls.first_call

    def check(cases: Iterable[Mapping[str, Array]]) -> ParityReport:
        return check_parity(
            model,
            list(dict.fromkeys(target.path for target in targets)),
            inputs=[as_call(fill_up(case, takes)) for case in cases],
            runtimes=list({target.spec.name: target.spec for target in targets}.values()),
            input_signature=job.input_signature,
            border=job.border,
            timeout=job.timeout,
            diagnosis_seconds=seconds,
        )

    if not failing:
        return None
    report = check(_together(rows, takes) for rows in failing)
    if not report.passed:
        return report
    batches = [_batch_of(rows[0], source, calibration.feed) for rows in failing]
    found = [batch for batch in batches if batch is not None]
    return check(found) if found else report


def _together(rows: Sequence[WorstRow], takes: Sequence[TensorInfo]) -> Mapping[str, Array]:
    """Returns the worst row and the later rows of equal shapes, as one batch that the model takes."""
    shapes = {name: array.shape for name, array in rows[0].inputs.items()}
    alike = [row for row in rows if {name: array.shape for name, array in row.inputs.items()} == shapes]
    first = alike[: fixed_size(takes)]
    return {name: np.stack([row.inputs[name] for row in first]) for name in shapes}


def _batch_of(row: WorstRow, source: DataSource, feed: Feed) -> Mapping[str, Array] | None:
    """Reads the batch of a row again, and returns it; None if the source now yields other rows."""
    try:
        shards = (shard for shard in shards_of(source) if shard.index == row.shard)
        batches = (batch for shard in shards for batch in shard_batches(source, feed, shard))
        batch = next((batch for batch in batches if batch.number == row.batch), None)
    except DataError:  # the source may be a generator, which can be read only once
        return None
    if batch is None:
        return None
    places = np.flatnonzero(batch.rows == row.row)
    pairs = ([(np.asarray(array[place]), row.inputs[name]) for name, array in batch.inputs.items()] for place in places)
    is_same = any(all(a.shape == b.shape and not differences(a, b).absolute.any() for a, b in each) for each in pairs)
    return batch.inputs if is_same else None
