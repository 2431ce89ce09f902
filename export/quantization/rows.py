"""Stores the rows of a data set on disk with the model's answers: some calibrate a file, the others check it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.comparison.name_matching import cast_to_runtime_floats
from keras_pe.export.parity.data.batching import Batch, whole_parts
from keras_pe.export.parity.data.shards import Shard
from keras_pe.export.parity.work.shard import shard_batches
from keras_pe.export.parity.work.worker_input import Calibration, Job
from keras_pe.export.parity.work.worker_session import Session
from keras_pe.export.progress import Tell
from keras_pe.export.publishing.staging import staged_file
from keras_pe.export.quantization.feeds import read_feed, write_feed
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays

_MIX = 2654435761  # Knuth's multiplicative hash: nearby numbers of rows get values far from each other
_ROWS, _INPUT, _EXPECTED = "rows", "input/", "expected/"


_RECORD = "shards.jsonl"


@dataclass
class StoredRows:
    """Batches on disk, each with its inputs and the model's outputs.

    Attributes:
        folder: The folder of the files.
        files: The files in order.
        rows: The number of rows.
    """

    folder: Path
    files: list[Path] = field(default_factory=list)
    rows: int = 0

    def add(self, batch: Batch, expected: Mapping[str, Array]) -> None:
        """Writes a batch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{len(self.files)}.npz"
        inputs = {_INPUT + name: array for name, array in batch.inputs.items()}
        write_feed(path, {_ROWS: batch.rows, **inputs, **{_EXPECTED + name: each for name, each in expected.items()}})
        self.files.append(path)
        self.rows += len(batch.rows)

    def batches(self, most_rows: int | None = None) -> Iterator[tuple[Batch, Arrays]]:
        """Yields each batch with the model's outputs, one batch in memory at a time; the first rows, or all."""
        seen = 0
        for path in self.files if most_rows is None or most_rows > 0 else ():
            arrays = read_feed(path)
            batch = Batch(arrays[_ROWS], _part(arrays, _INPUT), len(self.files))
            yield batch, _part(arrays, _EXPECTED)
            seen += len(batch.rows)
            if most_rows is not None and seen >= most_rows:
                return


def _part(arrays: Mapping[str, Array], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class SplitRows:
    """The rows of a data set.

    Attributes:
        calibration: The rows that the quantizer may see.
        held_out: The other rows.
        feeds: Files with the calibration rows under the artifact's names.
    """

    calibration: StoredRows
    held_out: StoredRows
    feeds: list[Path]

    @property
    def state(self) -> dict[str, list[int]]:
        """The numbers of files and rows of each part, as JSON values."""
        return {part.folder.name: [len(part.files), part.rows] for part in (self.calibration, self.held_out)}

    def restore(self, state: Mapping[str, list[int]]) -> None:
        """Takes the files of an earlier call that was stopped."""
        for part in (self.calibration, self.held_out):
            count, part.rows = state[part.folder.name]
            part.files = [part.folder / f"{number}.npz" for number in range(count)]


def store_rows(
    session: Session,
    job: Job,
    calibration: Calibration,
    shards: Iterable[Shard],
    worker: Runner,
    folder: Path,
    share: float,
    tell: Tell,
) -> SplitRows:
    """Runs the model on every row, and divides the rows by a hash of their numbers.

    Args:
        session: The loaded model.
        job: The data, and rules of feeding.
        calibration: The conversion of rows to batches.
        shards: The shards of the data.
        worker: The artifact, loaded.
        folder: The folder of the files. Shards that an earlier call with equal arguments left there are not run again.
        share: The share of the rows for calibration.
        tell: A function that reports progress.

    Raises:
        DataError: If the rows cannot be read, or do not fit the model.
    """
    (target,) = calibration.targets.values()
    found = SplitRows(StoredRows(folder / "calibration"), StoredRows(folder / "held-out"), [])
    known = _read_record(folder / _RECORD)
    is_known = True
    for shard in shards:
        is_known = is_known and shard.index < len(known) and known[shard.index]["shard"] == shard.fingerprint
        if is_known:
            found.restore(known[shard.index]["files"])
            continue
        for batch in shard_batches(job.source, calibration.feed, shard):
            expected = session.run(batch.inputs, in_float32=target.in_float32)
            is_seen = for_calibration(batch.rows, share)
            for kept, chosen in ((found.calibration, is_seen), (found.held_out, ~is_seen)):
                if chosen.any():
                    inputs = {name: array[chosen] for name, array in batch.inputs.items()}
                    kept.add(
                        Batch(batch.rows[chosen], inputs), {name: array[chosen] for name, array in expected.items()}
                    )
        known[shard.index :] = [{"shard": shard.fingerprint, "files": found.state}]
        with staged_file(folder / _RECORD, "The record of finished rows") as part:
            part.write_text("".join(json.dumps(each) + "\n" for each in known))
        tell(shard.start + shard.rows, job.source.rows, "running the model")
    for batch, _ in found.calibration.batches():
        for inputs in whole_parts(worker.inputs, cast_to_runtime_floats(worker, batch.inputs, None)):
            found.feeds.append(folder / f"feed-{len(found.feeds)}.npz")
            taken = {spec.name for spec in worker.inputs}
            own = worker.names.to_artifact(inputs)
            write_feed(found.feeds[-1], {name: array for name, array in own.items() if name in taken})
    return found


def _read_record(path: Path) -> list[dict[str, Any]]:
    """Returns the finished shards: the fingerprint of each, and the files after it."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def for_calibration(rows: Array, share: float) -> Array:
    """Returns which rows calibrate, by their numbers: the same rows at each run, spread over the whole data set."""
    mixed: Array = (rows.astype(np.uint64) * np.uint64(_MIX)) % np.uint64(2**32) < np.uint64(int(share * 2**32))
    return mixed
