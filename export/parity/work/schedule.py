"""Hands shards to an executor, a few at a time, and merges what comes back."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.shards import Shard, shards_of
from keras_pe.export.parity.data.source import DataSource
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.parity.work.calibration import calibrate
from keras_pe.export.parity.work.checkpoint import Checkpoint, result_key
from keras_pe.export.parity.work.job import Calibration, Job
from keras_pe.export.parity.work.shard import ShardResult, run_shard

MAX_TRIES = 3
"""How often a task is handed out whose worker died."""

_WRONG_DATA = (ValueError, TypeError, ImportError, OSError)  # what another worker would say, too


class WorkersDiedError(RuntimeError):
    """A task's workers have died again and again. What was finished stays in the checkpoint."""


@dataclass(frozen=True)
class Task:
    """What one worker does.

    Attributes:
        place: Where it is at, for people.
        function: What it calls.
        arguments: With what.
    """

    place: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass
class Tally:
    """What one artifact in one runtime has come to so far.

    Attributes:
        statistics: Of all rows so far.
        rows: Rows that were run, not taken from the checkpoint.
        seconds: What they took inside the runtime.
    """

    statistics: RuntimeStatistics
    rows: int = 0
    seconds: float = 0.0


def completed(executor: Executor, tasks: Iterator[Task], window: int) -> Generator[tuple[Task, Any], None, None]:
    """Returns tasks with their results as they come, `window` of them at once. Where a worker dies, another tries.

    Raises:
        WorkersDiedError: If that happens again and again.
        ValueError, TypeError, ImportError, OSError: What a task raises.
    """
    waiting: dict[Future[Any], tuple[Task, int]] = {}

    def submit(task: Task, tries: int) -> None:
        waiting[executor.submit(task.function, *task.arguments)] = task, tries

    try:
        while True:
            while len(waiting) < window and (following := next(tasks, None)) is not None:
                submit(following, 1)
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                task, tries = waiting.pop(future)
                try:
                    result = future.result()
                except _WRONG_DATA:
                    raise
                except (Exception, CancelledError) as error:
                    if tries == MAX_TRIES:
                        said = f"{type(error).__name__}: {first_line(error)}"
                        raise WorkersDiedError(
                            f"Workers died {tries} times at {task.place}: {said}. What was finished before stays in "
                            "the checkpoint."
                        ) from error
                    submit(task, tries + 1)
                else:
                    yield task, result
    finally:
        for future in waiting:
            future.cancel()


class Schedule:
    """One run over the shards of a source.

    Attributes:
        rows: Rows whose results are there.
        reused: Those of them whose results stood in the checkpoint.
        stopped: Whether as many rows have failed as are too many.
    """

    def __init__(
        self,
        executor: Executor,
        job: Job,
        checkpoint: Checkpoint,
        window: int,
        progress: Callable[[int, int | None, str], None],
    ) -> None:
        self.rows = self.reused = 0
        self.stopped = False
        self._executor = executor
        self._job = job
        self._checkpoint = checkpoint
        self._window = window
        self._tell = progress

    def calibrate(self, source: DataSource) -> Calibration:
        """Returns what a worker finds before the first shard: of some of them, and of rows that are sent the first."""
        shards = shards_of(source)
        sample = tuple(islice(shards, 1)) if source.parts is None else _spread(list(shards))
        task = Task("the loading of the model", calibrate, (self._job, sample))
        ((_, found),) = completed(self._executor, iter([task]), 1)
        calibration: Calibration = found
        return calibration

    def run(self, calibration: Calibration, source: DataSource) -> dict[str, Tally]:
        """Runs every shard whose results are not there, and returns what all have come to, by the key of the target."""
        keys = [target.key for target in self._job.targets if target.key not in calibration.unloaded]
        names = {key: self._result_name(calibration, key) for key in keys}
        tallies = {key: Tally(RuntimeStatistics()) for key in keys}
        tasks = self._missing(calibration, source, names, tallies) if keys else iter(())
        with closing(completed(self._executor, tasks, self._window)) as results:
            for task, result in results:
                self._take(result, task.arguments[2], names, tallies)
                if self.stopped:
                    break
        return tallies

    def _missing(
        self, calibration: Calibration, source: DataSource, names: dict[str, str], tallies: dict[str, Tally]
    ) -> Iterator[Task]:
        """Returns the shards whose results are not all there, after taking those that are."""
        for shard in shards_of(source):
            found = {key: self._checkpoint.load(name, shard) for key, name in names.items()}
            for key, statistics in found.items():
                if statistics is not None:
                    tallies[key].statistics = tallies[key].statistics.merge(statistics)
            missing = tuple(key for key, statistics in found.items() if statistics is None)
            if missing:
                place = f"rows {shard.start:,} to {shard.start + shard.rows - 1:,} of {shard.place}"
                content = shard.content and {name: shard.content[name] for name in calibration.feed.columns}
                shard = replace(shard, content=content)
                yield Task(place, run_shard, (self._job, calibration, shard, missing))
            else:
                self.reused += shard.rows
                self._count(shard.rows, tallies)
            if self.stopped:
                return

    def _take(self, result: ShardResult, shard: Shard, names: dict[str, str], tallies: dict[str, Tally]) -> None:
        for key, statistics in result.statistics.items():
            self._checkpoint.save(names[key], shard, statistics)
            tally = tallies[key]
            tally.statistics = tally.statistics.merge(statistics)
            tally.rows += shard.rows
            tally.seconds += result.seconds[key]
        self._count(shard.rows, tallies)

    def _count(self, rows: int, tallies: dict[str, Tally]) -> None:
        self.rows += rows
        failed = max(tally.statistics.failed for tally in tallies.values())
        limit = self._job.acceptance.stop_after
        self.stopped = limit is not None and failed >= limit
        self._tell(self.rows, self._job.source.rows, f"{failed:,} failed" if failed else "")

    def _result_name(self, calibration: Calibration, key: str) -> str:
        """Returns the part of a result's name that says how it was made."""
        accepted = self._job.allowance
        return result_key(
            reference=self._job.reference.key,
            version=calibration.version,
            target=key,
            accepted=(accepted.rtol, accepted.atol, accepted.precision),
            batching=repr(calibration.feed),
            rules={name: repr(rule) for name, rule in sorted(calibration.rules[key].items())},
            in_float32=key in calibration.in_float32,
        )


def _spread(shards: list[Shard], count: int = 8) -> tuple[Shard, ...]:
    """Returns some shards, evenly spread: the first and the last among them."""
    steps = max(min(count, len(shards)) - 1, 1)
    return tuple(shards[place] for place in sorted({step * (len(shards) - 1) // steps for step in range(steps + 1)}))
