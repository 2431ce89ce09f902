"""One shard through the reference and the runtimes: what a worker does."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.messages import first_line
from keras_pe.export.parity.dataset.batching import Batch
from keras_pe.export.parity.dataset.job import Calibration, Job, OutputRule, Target
from keras_pe.export.parity.dataset.session import Session, session_of
from keras_pe.export.parity.dataset.sources.source import DataError, Rows, Shard, split
from keras_pe.export.parity.dataset.statistics.output import OutputStatistics, RowVerdicts, measure_output
from keras_pe.export.parity.dataset.statistics.runtime import WORST, RuntimeStatistics
from keras_pe.export.parity.dataset.statistics.worst import Severity, WorstRow
from keras_pe.export.parity.dataset.target import Answer
from keras_pe.export.parity.results import Array
from keras_pe.export.parity.verdict.tolerance import MAX_FACTOR, noise_floor
from keras_pe.export.runtimes.runtime import Arrays

_WINDOW = 8  # batches that are read at once, so that rows of one length find each other


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
        for key in keys:
            session.targets[key].begin_shard()
        merged = dict.fromkeys(keys, RuntimeStatistics())
        for number, batch in enumerate(shard_batches(job, calibration, shard)):
            expected, answers = _ask(session, batch, targets, shard)
            for key in keys:
                found = _measure(session, calibration, shard, number, batch, expected, answers[key], merged[key])
                merged[key] = merged[key].merge(found)
        seconds = {key: session.targets[key].seconds - before[key] for key in keys}
    return ShardResult(shard.index, merged, seconds)


def shard_batches(job: Job, calibration: Calibration, shard: Shard) -> Iterator[Batch]:
    """Returns the batches of a shard: the same each time."""
    window = _WINDOW * calibration.batching.batch_size
    start = shard.start
    columns = tuple(dict.fromkeys(calibration.batching.columns.values()))
    for rows in _read(job, shard, window, columns):
        yield from calibration.batching.batches(start, rows)
        start += len(next(iter(rows.values())))
    if start - shard.start != shard.rows:
        raise DataError(f"{shard.place} must have {shard.rows:,} rows. Received: {start - shard.start:,}.")


def _read(job: Job, shard: Shard, count: int, columns: tuple[str, ...]) -> Iterator[Rows]:
    if shard.content is not None:
        return split(shard.content, count)
    assert job.source is not None
    return job.source.read(shard, count, columns)


def _ask(
    session: Session, batch: Batch, targets: tuple[Target, ...], shard: Shard
) -> tuple[Arrays, Mapping[str, list[Answer]]]:
    try:
        return session.run(batch, targets)
    except Exception as error:  # whatever a layer raises
        raise DataError(_refusal(session, batch, shard, error)) from error


def _refusal(session: Session, batch: Batch, shard: Shard, error: Exception) -> str:
    """Says which row the reference refuses."""
    what, said = ", ".join(f"{name} {array.shape}" for name, array in batch.inputs.items()), error
    for place, row in enumerate(batch.rows.tolist()):
        try:
            session.reference.run({name: array[place : place + 1] for name, array in batch.inputs.items()})
        except Exception as own:
            what, said = f"row {row:,} of {shard.place}", own
            break
    return f"{session.reference.name} must take every row. Received: {what}, which it refuses ({first_line(said)})."


def _measure(
    session: Session,
    calibration: Calibration,
    shard: Shard,
    number: int,
    batch: Batch,
    expected: Arrays,
    answers: list[Answer],
    so_far: RuntimeStatistics,
) -> RuntimeStatistics:
    """Returns the statistics of one batch in one runtime."""
    count = len(batch.rows)
    severity = np.zeros(count, np.int64)
    error = np.zeros(count)
    messages: dict[int, str] = {}
    actual: dict[int, Arrays] = {}
    problems: dict[str, int] = {}
    outputs: dict[str, OutputStatistics] = {}
    for answer in answers:
        places = range(count)[answer.rows]
        if answer.outputs is None:
            severity[answer.rows] = Severity.NO_ANSWER
            messages |= dict.fromkeys(places, answer.message)
            problems.setdefault(answer.message, int(batch.rows[places[0]]))
            continue
        own = {name: array[answer.rows] for name, array in expected.items()}
        inputs = {name: array[answer.rows] for name, array in batch.inputs.items()}
        for name, array in own.items():
            problem = _incomparable(name, array, answer.outputs)
            if problem:
                severity[answer.rows] = np.maximum(severity[answer.rows], Severity.FAILED)
                problems.setdefault(problem, int(batch.rows[places[0]]))
                continue
            rule = calibration.rules[name]
            statistics, rows = _compare(session, rule, name, inputs, array, answer.outputs[name])
            outputs[name] = outputs.get(name, OutputStatistics()).merge(statistics)
            own_severity = np.where(rows.clash, Severity.CLASH, np.where(rows.failed, Severity.FAILED, Severity.AGREES))
            severity[answer.rows] = np.maximum(severity[answer.rows], own_severity)
            scale = max(rule.allowed or rule.unit, np.finfo(np.float64).tiny)
            error[answer.rows] = np.maximum(error[answer.rows], rows.error / scale)
        actual |= dict.fromkeys(places, answer.outputs)
    worst = []
    for place in _candidates(severity, error, batch.rows, so_far):
        answered = next(answer for answer in answers if place in range(count)[answer.rows])
        offset = place - range(count)[answered.rows].start
        worst.append(
            WorstRow(
                row=int(batch.rows[place]),
                place=shard.place,
                shard=shard.index,
                batch=number,
                severity=Severity(int(severity[place])),
                error=float(error[place]),
                inputs={name: _kept(array[place]) for name, array in batch.inputs.items()},
                expected={name: _kept(array[place]) for name, array in expected.items()},
                actual={name: _kept(array[offset]) for name, array in (answered.outputs or {}).items()},
                message=messages.get(place, ""),
            )
        )
    return RuntimeStatistics(
        rows=count,
        failed=int((severity > Severity.AGREES).sum()),
        unanswered=int((severity == Severity.NO_ANSWER).sum()),
        outputs=outputs,
        problems=problems,
        worst=tuple(sorted(worst, key=lambda row: row.order)),
    )


def _kept(value: Array) -> Array:
    """Returns a copy that does not hold the whole batch."""
    return np.array(value)


def _incomparable(name: str, expected: Array, outputs: Arrays) -> str:
    """Returns what keeps an output from being compared, empty where nothing does."""
    if name not in outputs:
        return f"output {name!r} is missing"
    actual = outputs[name]
    if actual.shape != expected.shape:
        return f"output {name!r} has shape {actual.shape[1:]} a row instead of {expected.shape[1:]}"
    if (actual.dtype.kind in "OUS") != (expected.dtype.kind in "OUS"):
        return f"output {name!r} is {actual.dtype} instead of {expected.dtype}"
    return ""


def _compare(
    session: Session, rule: OutputRule, name: str, inputs: Arrays, expected: Array, actual: Array
) -> tuple[OutputStatistics, RowVerdicts]:
    """Compares one output; rows that are out of tolerance are measured again by the float64 rebuild's answer to them.

    The floor of a sample is not that of every row: where the model itself is less exact, more is allowed.
    """
    options: dict[str, Any] = {"decision": rule.decision, "noise": MAX_FACTOR * rule.unit}
    statistics, rows = measure_output(expected, actual, allowed=rule.allowed, **options)
    suspects = np.flatnonzero(rows.failed & ~rows.clash)
    if rule.allowed is None or rule.is_given or rule.decision is not None or not rule.unit or not suspects.size:
        return statistics, rows
    truth = session.reference.truth({key: array[suspects] for key, array in inputs.items()}).get(name)
    if truth is None or truth.shape != expected[suspects].shape or not np.isfinite(truth).all():
        return statistics, rows
    target = expected.astype(np.float64)
    target[suspects] = truth
    allowed = np.full(len(expected), rule.allowed)
    for row, true in zip(suspects, truth, strict=True):
        allowed[row] = max(rule.allowed, MAX_FACTOR * noise_floor(expected[row], true))
    return measure_output(target, actual, allowed=allowed, **options)


def _candidates(severity: Array, error: Array, rows: Array, so_far: RuntimeStatistics) -> list[int]:
    """Returns the rows of a batch that are among the worst so far, by their place."""
    order: list[int] = np.lexsort((rows, -error, -severity))[:WORST].tolist()
    if len(so_far.worst) < WORST:
        return order
    last = so_far.worst[-1].order
    return [i for i in order if (-int(severity[i]), -float(error[i]), int(rows[i])) < last]
