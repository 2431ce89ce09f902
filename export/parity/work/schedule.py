"""Sends shards to an executor, a few at a time, stores their results on disk, and merges them."""

import io
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from keras_pe.export.errors import ForeignExitError, first_line
from keras_pe.export.parity.data.shards import Shard, fingerprint, shards_of
from keras_pe.export.parity.data.source import DataSource
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.parity.work.noise_sample import calibrate
from keras_pe.export.parity.work.shard import Tally, run_shard
from keras_pe.export.parity.work.worker_input import Calibration, Job
from keras_pe.export.progress import Tell
from keras_pe.export.publishing.staging import staging

MAX_TRIES = 3
"""How often a task is submitted if its worker dies or loses its connection."""

_VERSION = 6  # version of the format of a result on disk
# Errors that a task would raise at every worker, so that another try is useless.
_OF_THE_TASK = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ForeignExitError,
    ImportError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)


class WorkersDiedError(BrokenExecutor):
    """The workers of a task died, or could not be reached, on every try. The checkpoint keeps the finished results."""


class Checkpoint:
    """A folder of finished results, which need not be computed again.

    The name of a result contains a hash of the shard, the model, the artifact, the runtime and the options. An old
    result is therefore never used after a change. It stays, and is used again if the change is reverted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(f"`checkpoint_dir` must be a folder. Received: {folder}, a file.") from error

    def load(self, key: str, shard: Shard) -> RuntimeStatistics | None:
        """Returns the result; None if it is missing or damaged, or if the file contains another result."""
        path = self._path(key, shard)
        try:
            content = path.read_bytes()
            with zipfile.ZipFile(io.BytesIO(content)) as file:
                is_own = file.comment == path.name.encode()
            return RuntimeStatistics.from_bytes(content) if is_own else None
        except Exception:  # a damaged file may raise any error
            return None

    def save(self, key: str, shard: Shard, statistics: RuntimeStatistics) -> None:
        """Writes a result to a temporary file beside its path, and renames it.

        Raises:
            OSError: If the result cannot be written. Earlier results stay.
        """
        path = self._path(key, shard)
        try:
            with staging(path) as folder:
                part = folder / path.name
                part.write_bytes(statistics.to_bytes())
                with zipfile.ZipFile(part, "a") as file:
                    file.comment = path.name.encode()  # lets `load` detect another result that was renamed to this name
                part.replace(path)
        except OSError as error:
            raise OSError(
                f"A result could not be written to {self._folder}: {first_line(error)}. The finished results stay "
                "there, and the same call continues from them."
            ) from error

    def _path(self, key: str, shard: Shard) -> Path:
        return self._folder / f"{shard.index:06d}-{fingerprint(key, shard.index, shard.fingerprint)[:32]}.npz"


def result_key(**parts: Any) -> str:
    """Returns the hash of the parts of a result's name that all shards share, which are JSON values."""
    return fingerprint(_VERSION, parts)


@dataclass(frozen=True)
class Task:
    """A function call for one worker.

    Attributes:
        place: The name of the task in an error.
        function: The function.
        arguments: Its arguments.
    """

    place: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def run_tasks(executor: Executor, tasks: Iterator[Task], window: int) -> Generator[tuple[Task, Any], None, None]:
    """Yields tasks with their results in the order of completion, with `window` tasks in flight.

    A task is submitted again if its worker dies, or a connection is lost.

    Raises:
        WorkersDiedError: If that happens `MAX_TRIES` times.
        ValueError, TypeError, ImportError, OSError: An error of a task.
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
                except (Exception, CancelledError) as error:
                    if _is_of_the_task(error):
                        raise
                    if tries == MAX_TRIES:
                        how = "died" if isinstance(error, BrokenExecutor) else "failed"
                        message = f"{type(error).__name__}: {first_line(error)}"
                        raise WorkersDiedError(
                            f"Workers {how} {tries} times at {task.place}: {message}. The finished results stay in "
                            "the checkpoint."
                        ) from error
                    submit(task, tries + 1)
                else:
                    yield task, result
    finally:
        for future in waiting:
            future.cancel()


def _is_of_the_task(error: BaseException) -> bool:
    """Whether every worker would raise this error. An OSError with a file name is not about a connection."""
    return isinstance(error, _OF_THE_TASK) or (isinstance(error, OSError) and error.filename is not None)


class Schedule:
    """One run over the shards of a source.

    Attributes:
        tallies: The results so far of each artifact in its runtime, by the key of the target.
        rows: Number of rows with results.
        reused: Number of rows whose results came from the checkpoint.
        stopped: Whether the number of failed rows has reached the limit.
    """

    def __init__(
        self, executor: Executor, job: Job, source: DataSource, checkpoint: Checkpoint, window: int, tell: Tell
    ) -> None:
        """Stores the job, the number of shards in flight (`window`), and the function `tell` that reports progress."""
        self.tallies: dict[str, Tally] = {}
        self.rows = self.reused = 0
        self.stopped = False
        self._executor, self._job, self._source = executor, job, source
        self._checkpoint, self._window, self._tell = checkpoint, window, tell
        self._names: dict[str, str] = {}  # names of results on disk, by the key of the target

    def calibrate(self) -> Calibration:
        """Returns the calibration of a worker, from some shards, or from the first if their rows must be sent."""
        shards = shards_of(self._source)
        sample = tuple(islice(shards, 1)) if self._source.parts is None else _spread(list(shards))
        task = Task("loading the model", calibrate, (self._job, sample))
        ((_, found),) = run_tasks(self._executor, iter([task]), 1)
        calibration: Calibration = found
        return calibration

    def run(self, calibration: Calibration) -> None:
        """Runs every shard without stored results."""
        keys = [key for key, found in calibration.targets.items() if not found.error]
        self._names = {key: self._result_name(calibration, key) for key in keys}
        self.tallies = {key: Tally() for key in keys}
        tasks = self._missing(calibration) if keys else iter(())
        with closing(run_tasks(self._executor, tasks, self._window)) as results:
            for task, result in results:
                shard = task.arguments[2]
                for key, tally in result.items():
                    self._checkpoint.save(self._names[key], shard, tally.statistics)
                self._take(result)
                self._count(shard.rows)
                if self.stopped:
                    break

    def _missing(self, calibration: Calibration) -> Iterator[Task]:
        """Merges the stored results, and yields a task for each shard with missing results."""
        for shard in shards_of(self._source):
            kept = {key: self._checkpoint.load(name, shard) for key, name in self._names.items()}
            self._take({key: Tally(statistics) for key, statistics in kept.items() if statistics is not None})
            missing = tuple(key for key, statistics in kept.items() if statistics is None)
            if missing:
                place = f"rows {shard.start:,} to {shard.start + shard.rows - 1:,} of {shard.place}"
                content = shard.content and {name: shard.content[name] for name in calibration.feed.columns}
                shard = replace(shard, content=content)
                yield Task(place, run_shard, (self._job, calibration, shard, missing))
            else:
                self.reused += shard.rows
                self._count(shard.rows)
            if self.stopped:
                return

    def _take(self, found: Mapping[str, Tally]) -> None:
        self.tallies |= {key: self.tallies[key].merge(tally) for key, tally in found.items()}

    def _count(self, rows: int) -> None:
        self.rows += rows
        failed = max(tally.statistics.failed for tally in self.tallies.values())
        limit = self._job.acceptance.stop_after
        self.stopped = limit is not None and failed >= limit
        self._tell(self.rows, self._source.rows, f"{failed:,} failed" if failed else "")

    def _result_name(self, calibration: Calibration, key: str) -> str:
        """Returns the hash of all that a target's results depend on, beside the shard."""
        accepted = self._job.allowance
        return result_key(
            reference=self._job.reference.key,
            version=calibration.version,
            target=key,
            accepted=repr((accepted.rtol, accepted.atol, accepted.precision)),
            batching=repr(calibration.feed),
            border=repr(self._job.border),
            rules=repr(sorted(calibration.targets[key].rules.items())),
            in_float32=calibration.targets[key].in_float32,
        )


def _spread(shards: list[Shard], count: int = 8) -> tuple[Shard, ...]:
    """Returns evenly spaced shards, including the first and the last."""
    steps = max(min(count, len(shards)) - 1, 1)
    return tuple(shards[place] for place in sorted({step * (len(shards) - 1) // steps for step in range(steps + 1)}))
