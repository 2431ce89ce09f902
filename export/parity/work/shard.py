"""Runs one shard through the reference and the runtimes, in a worker."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace

import numpy as np

from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.batching import Batch, Feed
from keras_pe.export.parity.data.pieces import count
from keras_pe.export.parity.data.shards import Shard, read_rows
from keras_pe.export.parity.data.source import DataError, DataSource, byte_count
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.parity.work.batch_measurement import RowMeasurer
from keras_pe.export.parity.work.target_runner import Answer
from keras_pe.export.parity.work.worker_input import Calibration, Job, Target
from keras_pe.export.parity.work.worker_session import Session, session_of
from keras_pe.export.runtimes.runtime import Array, Arrays

_Answered = tuple[Batch, dict[str, Arrays], dict[str, list[Answer]]]

_TOGETHER = 4  # batches in one request, since each request waits for a busy machine
_TOGETHER_BYTES = 2**24  # a request of several batches ends at this size


@dataclass(frozen=True)
class Tally:
    """The results of one artifact in one runtime over some rows.

    Attributes:
        statistics: The statistics of all rows.
        rows: Number of rows that ran, without the rows from the checkpoint.
        seconds: Time inside the runtime for the rows that ran.
    """

    statistics: RuntimeStatistics = field(default_factory=RuntimeStatistics)
    rows: int = 0
    seconds: float = 0.0

    def merge(self, other: "Tally") -> "Tally":
        """Returns the merged results. The two must have no row in common."""
        statistics = self.statistics.merge(other.statistics)
        return Tally(statistics, self.rows + other.rows, self.seconds + other.seconds)


def run_shard(job: Job, calibration: Calibration, shard: Shard, keys: tuple[str, ...]) -> dict[str, Tally]:
    """Runs every row of a shard through the targets of these keys, and returns the results of each.

    Raises:
        DataError: If the rows cannot be read, do not fit the model, or are refused by the reference.
    """
    targets = tuple(target for target in job.targets if target.key in keys)
    with session_of(job) as session:
        before = {key: session.targets[key].seconds for key in keys}
        measurers = {key: RowMeasurer(session, job, calibration.targets[key]) for key in keys}
        merged = dict.fromkeys(keys, RuntimeStatistics())
        for batch, expected, answers in _answer_batches(session, job, calibration, shard, targets):
            for key in keys:
                measured = measurers[key].measure(batch, expected[key], answers[key])
                merged[key] = merged[key].merge(measured.summarize(shard, merged[key]))
        return {key: Tally(merged[key], shard.rows, session.targets[key].seconds - before[key]) for key in keys}


def run_rows(job: Job, calibration: Calibration, shard: Shard) -> tuple[Array, Array]:
    """Runs the rows of a shard through the job's first target, and returns the severity and the error of each row."""
    target, severity, error = job.targets[0], np.zeros(shard.rows, np.int64), np.zeros(shard.rows)
    with session_of(job) as session:
        measurer = RowMeasurer(session, job, calibration.targets[target.key])
        for batch, expected, answers in _answer_batches(session, job, calibration, shard, (target,)):
            rows = measurer.measure(batch, expected[target.key], answers[target.key])
            places = batch.rows - shard.start
            severity[places], error[places] = rows.severity, rows.error
    return severity, error


def shard_batches(source: DataSource, feed: Feed, shard: Shard) -> Iterator[Batch]:
    """Yields the batches of a shard, always in the same division."""
    start, number = shard.start, 0
    for rows in read_rows(source, feed.columns, shard, feed.window):
        for batch in feed.batches(start, rows):
            yield replace(batch, number=number)
            number += 1
        start += count(rows)
    if start - shard.start != shard.rows:
        raise DataError(f"{shard.place} must have {shard.rows:,} rows. Received: {start - shard.start:,}.")


def _answer_batches(
    session: Session, job: Job, calibration: Calibration, shard: Shard, targets: tuple[Target, ...]
) -> Iterator[_Answered]:
    """Yields each batch of a shard with the expected outputs and the answers of each runtime.

    The reference and the runtimes compute the next batches while the caller compares the current ones.
    """
    for target in targets:
        session.targets[target.key].begin_shard(calibration.targets[target.key].names, job.allowance.precision)
    in_float32 = {target.key for target in targets if calibration.targets[target.key].in_float32}
    asked: deque[_Asked] = deque()
    try:
        for group in _groups(shard_batches(job.source, calibration.feed, shard)):
            asked.append(_Asked(group, *session.ask(group, targets, in_float32)))
            if len(asked) > 1:
                yield from _answers(session, shard, asked.popleft())
        while asked:
            yield from _answers(session, shard, asked.popleft())
    finally:
        wait([future for one in asked for future in one.answers.values()])


def _groups(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Yields batches in groups of a few."""
    group: list[Batch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += sum(map(byte_count, batch.inputs.values()))
        if len(group) == _TOGETHER or size >= _TOGETHER_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


@dataclass(frozen=True)
class _Asked:
    """Batches in flight."""

    batches: list[Batch]
    expected: dict[str, Future[list[Arrays]]]
    answers: dict[str, Future[list[list[Answer]]]]


def _answers(session: Session, shard: Shard, asked: _Asked) -> Iterator[_Answered]:
    try:
        expected = {key: future.result() for key, future in asked.expected.items()}
    except Exception as error:  # a layer may raise any error
        wait(asked.answers.values())
        raise DataError(_refusal(session, asked.batches, shard, error)) from error
    found = {key: answer.result() for key, answer in asked.answers.items()}
    for place, batch in enumerate(asked.batches):
        of_batch = {key: arrays[place] for key, arrays in expected.items()}
        yield batch, of_batch, {key: answers[place] for key, answers in found.items()}


def _refusal(session: Session, batches: list[Batch], shard: Shard, error: Exception) -> str:
    """Returns an error message that names the row that the reference refuses."""
    shapes = ", ".join(f"{name} {array.shape}" for name, array in batches[0].inputs.items())
    what, reason = shapes, error
    for batch, place in ((each, place) for each in batches for place in range(len(each.rows))):
        try:
            session.run({name: array[place : place + 1] for name, array in batch.inputs.items()})
        except Exception as own:
            what, reason = f"row {int(batch.rows[place]):,} of {shard.place}", own
            break
    return f"{session.reference.name} must take every row. Received: {what}, which it refuses ({first_line(reason)})."
