"""Hands shards to an executor, a few at a time, and merges what comes back."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, replace
from typing import Any

from keras_pe.export.messages import first_line
from keras_pe.export.parity.dataset.checkpoint import Checkpoint, result_key
from keras_pe.export.parity.dataset.job import Calibration, Job
from keras_pe.export.parity.dataset.shard import ShardResult, run_shard
from keras_pe.export.parity.dataset.sources.source import Shard, Source
from keras_pe.export.parity.dataset.statistics.runtime import RuntimeStatistics

MAX_TRIES = 3
"""How often a shard is handed out whose worker died."""

_IN_FLIGHT = 32
"""Shards handed out at once to an executor whose size is not known."""

_WRONG_DATA = (ValueError, TypeError, ImportError, OSError)  # what another worker would say, too


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


class WorkersDiedError(RuntimeError):
    """A shard's workers have died again and again. What was finished stays in the checkpoint."""


class Schedule:
    """One run over the shards of a source.

    Attributes:
        rows: Rows whose results are there.
        reused: Those of them whose results stood in the checkpoint.
        stopped: Whether `stop_after` rows have failed.
    """

    def __init__(
        self,
        executor: Executor,
        job: Job,
        checkpoint: Checkpoint,
        workers: int | None,
        stop_after: int | None,
        progress: Callable[[int, int | None, str], None],
    ) -> None:
        self.rows = self.reused = 0
        self.stopped = False
        self._executor = executor
        self._job = job
        self._checkpoint = checkpoint
        self._window = _IN_FLIGHT if workers is None else max(1, 2 * workers)
        self._stop_after = stop_after
        self._total: int | None = None
        self._tell = progress

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what a function says in a worker."""
        for tries in range(1, MAX_TRIES + 1):
            try:
                return self._executor.submit(function, *arguments).result()
            except _WRONG_DATA:
                raise
            except (Exception, CancelledError) as error:
                if tries == MAX_TRIES:
                    raise WorkersDiedError(f"Workers died {tries} times while they loaded: {_said(error)}.") from error
        raise AssertionError("the last try returns or raises")

    def run(self, calibration: Calibration, source: Source) -> dict[str, Tally]:
        """Runs every shard whose results are not there, and returns what all have come to, by the key of the target."""
        self._total = source.rows
        keys = [target.key for target in self._job.targets if target.key not in calibration.unloaded]
        tallies = {key: Tally(RuntimeStatistics()) for key in keys}
        names = {key: self._result_name(calibration, key) for key in keys}
        waiting: dict[Future[ShardResult], tuple[Shard, tuple[str, ...], int]] = {}
        shards = self._missing(calibration, source, names, tallies) if keys else iter(())
        is_over = False
        try:
            while True:
                while not is_over and not self.stopped and len(waiting) < self._window:
                    following = next(shards, None)
                    is_over = following is None
                    if following is not None:
                        self._submit(waiting, calibration, *following, 1)
                if not waiting or self.stopped:
                    return tallies
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    shard, missing, tries = waiting.pop(future)
                    result = self._result(future, shard, tries)
                    if result is None:
                        self._submit(waiting, calibration, shard, missing, tries + 1)
                    else:
                        self._take(result, shard, names, tallies)
        finally:
            for future in waiting:
                future.cancel()

    def _missing(
        self, calibration: Calibration, source: Source, names: dict[str, str], tallies: dict[str, Tally]
    ) -> Iterator[tuple[Shard, tuple[str, ...]]]:
        """Returns the shards whose results are not all there, after taking those that are."""
        columns = set(calibration.batching.columns.values())
        for shard in source.shards():
            found = {key: self._checkpoint.load(name, shard) for key, name in names.items()}
            for key, statistics in found.items():
                if statistics is not None:
                    tallies[key].statistics = tallies[key].statistics.merge(statistics)
            missing = tuple(key for key, statistics in found.items() if statistics is None)
            if missing:
                content = shard.content and {name: rows for name, rows in shard.content.items() if name in columns}
                yield replace(shard, content=content), missing
            else:
                self.reused += shard.rows
                self._count(shard.rows, tallies)
                if self.stopped:
                    return

    def _submit(
        self,
        waiting: dict[Future[ShardResult], tuple[Shard, tuple[str, ...], int]],
        calibration: Calibration,
        shard: Shard,
        missing: tuple[str, ...],
        tries: int,
    ) -> None:
        future = self._executor.submit(run_shard, self._job, calibration, shard, missing)
        waiting[future] = (shard, missing, tries)

    def _result(self, future: Future[ShardResult], shard: Shard, tries: int) -> ShardResult | None:
        """Returns a shard's result, None where its worker died and another may try."""
        try:
            return future.result()
        except _WRONG_DATA:
            raise
        except (Exception, CancelledError) as error:
            if tries < MAX_TRIES:
                return None
            raise WorkersDiedError(
                f"Workers died {tries} times at rows {shard.start:,} to {shard.start + shard.rows - 1:,} of "
                f"{shard.place}: {_said(error)}. What was finished before stays in the checkpoint."
            ) from error

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
        self.stopped = self._stop_after is not None and failed >= self._stop_after
        self._tell(self.rows, self._total, f"{failed:,} failed" if failed else "")

    def _result_name(self, calibration: Calibration, key: str) -> str:
        """Returns the part of a result's name that says how it was made."""
        return result_key(
            reference=self._job.reference_key,
            version=calibration.version,
            target=key,
            batching=repr(calibration.batching),
            rules={name: repr(rule) for name, rule in sorted(calibration.rules.items())},
        )


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
