"""One shard through the reference and the runtimes: what a worker does."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass

import numpy as np

from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.batching import Batch
from keras_pe.export.parity.data.shards import Shard, count, read_rows
from keras_pe.export.parity.data.source import DataError
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.parity.work.job import Calibration, Job, Target
from keras_pe.export.parity.work.loaded import Session, session_of
from keras_pe.export.parity.work.measurement import RowMeasures, SecondLook, measure_rows, summarize
from keras_pe.export.parity.work.target import Answer
from keras_pe.export.runtimes.runtime import Arrays

_Numbered = tuple[int, Batch]

_WINDOW = 8  # batches that are read at once, so that rows of one length find each other
_TOGETHER = 4  # batches that are asked for at once: on a busy machine each question waits for its turn
_TOGETHER_BYTES = 2**24  # and no more, as far as they are of more than one


@dataclass(frozen=True)
class ShardResult:
    """What came of a shard.

    Attributes:
        shard: Its number.
        statistics: By the key of the target.
        seconds: What the runs took inside each runtime, by the key of the target.
    """

    shard: int
    statistics: Mapping[str, RuntimeStatistics]
    seconds: Mapping[str, float]


def run_shard(job: Job, calibration: Calibration, shard: Shard, keys: tuple[str, ...]) -> ShardResult:
    """Runs every row of a shard.

    Args:
        job: What all shards have in common.
        calibration: What was found before the first.
        shard: Which rows.
        keys: The targets to run.

    Raises:
        DataError: If the rows cannot be read, do not fit the model, or are refused by the reference.
    """
    targets = tuple(target for target in job.targets if target.key in keys)
    with session_of(job) as session:
        before = {key: session.targets[key].seconds for key in keys}
        merged = dict.fromkeys(keys, RuntimeStatistics())
        look = _second_look(session, job)
        for number, batch, expected, answers in _answered(session, job, calibration, shard, targets):
            for key in keys:
                measured = measure_rows(look, job.law, calibration.rules[key], batch, expected[key], answers[key])
                found = summarize(measured, shard, number, batch, expected[key], answers[key], merged[key])
                merged[key] = merged[key].merge(found)
        seconds = {key: session.targets[key].seconds - before[key] for key in keys}
    return ShardResult(shard.index, merged, seconds)


def run_rows(job: Job, calibration: Calibration, shard: Shard) -> RowMeasures:
    """Runs the rows of a shard through the job's first target, and returns what is known of each, in their order."""
    target = job.targets[0]
    severity, error = np.zeros(shard.rows, np.int64), np.zeros(shard.rows)
    with session_of(job) as session:
        look, rules = _second_look(session, job), calibration.rules[target.key]
        for _, batch, expected, answers in _answered(session, job, calibration, shard, (target,)):
            rows = measure_rows(look, job.law, rules, batch, expected[target.key], answers[target.key])
            places = batch.rows - shard.start
            severity[places], error[places] = rows.severity, rows.error
    return RowMeasures(severity, error)


def _second_look(session: Session, job: Job) -> SecondLook:
    return SecondLook(session.truth, lambda rows: session.noise([rows], job.allowance.precision)[0])


def shard_batches(job: Job, calibration: Calibration, shard: Shard) -> Iterator[Batch]:
    """Returns the batches of a shard: the same each time."""
    window = _WINDOW * calibration.feed.rule.batch_size
    start = shard.start
    for rows in read_rows(job.source, calibration.feed.columns, shard, window):
        yield from calibration.feed.batches(start, rows)
        start += count(rows)
    if start - shard.start != shard.rows:
        raise DataError(f"{shard.place} must have {shard.rows:,} rows. Received: {start - shard.start:,}.")


def _answered(
    session: Session, job: Job, calibration: Calibration, shard: Shard, targets: tuple[Target, ...]
) -> Iterator[tuple[int, Batch, dict[str, Arrays], dict[str, list[Answer]]]]:
    """Returns each batch of a shard with its number, what is expected of each runtime and what it says.

    They have the next batches while these are compared: nobody waits for the other.
    """
    for target in targets:
        session.targets[target.key].begin_shard(calibration.names.get(target.key, ()), job.allowance.precision)
    asked: deque[_Asked] = deque()
    try:
        for group in _groups(enumerate(shard_batches(job, calibration, shard))):
            asked.append(_Asked(group, *session.ask([batch for _, batch in group], targets, calibration.in_float32)))
            if len(asked) > 1:
                yield from _answers(session, shard, asked.popleft())
        while asked:
            yield from _answers(session, shard, asked.popleft())
    finally:
        wait([future for one in asked for future in one.answers.values()])


def _groups(batches: Iterable[_Numbered]) -> Iterator[list[_Numbered]]:
    """Returns batches, a few at a time."""
    group: list[_Numbered] = []
    size = 0
    for number, batch in batches:
        group.append((number, batch))
        size += sum(array.nbytes for array in batch.inputs.values())
        if len(group) == _TOGETHER or size >= _TOGETHER_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


@dataclass(frozen=True)
class _Asked:
    """Batches that are being computed."""

    batches: list[_Numbered]
    expected: dict[str, Future[list[Arrays]]]
    answers: dict[str, Future[list[list[Answer]]]]


def _answers(
    session: Session, shard: Shard, asked: _Asked
) -> Iterator[tuple[int, Batch, dict[str, Arrays], dict[str, list[Answer]]]]:
    try:
        expected = {key: future.result() for key, future in asked.expected.items()}
    except Exception as error:  # whatever a layer raises
        wait(asked.answers.values())
        raise DataError(_refusal(session, [batch for _, batch in asked.batches], shard, error)) from error
    found = {key: answer.result() for key, answer in asked.answers.items()}
    for place, (number, batch) in enumerate(asked.batches):
        of_batch = {key: arrays[place] for key, arrays in expected.items()}
        yield number, batch, of_batch, {key: answers[place] for key, answers in found.items()}


def _refusal(session: Session, batches: list[Batch], shard: Shard, error: Exception) -> str:
    """Says which row the reference refuses."""
    shapes = ", ".join(f"{name} {array.shape}" for name, array in batches[0].inputs.items())
    what, said = shapes, error
    for batch, place in ((each, place) for each in batches for place in range(len(each.rows))):
        try:
            session.run({name: array[place : place + 1] for name, array in batch.inputs.items()})
        except Exception as own:
            what, said = f"row {int(batch.rows[place]):,} of {shard.place}", own
            break
    return f"{session.reference.name} must take every row. Received: {what}, which it refuses ({first_line(said)})."
