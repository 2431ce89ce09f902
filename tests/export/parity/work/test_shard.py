"""A shard's rows are judged for each runtime by itself, whoever else runs beside it."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.parity.data.array_files import open_mapping
from keras_pe.export.parity.data.batching import Batch, Batching, Feed
from keras_pe.export.parity.data.shards import shards_of, without_parts
from keras_pe.export.parity.work import shard
from keras_pe.export.parity.work.target_runner import Answer
from keras_pe.export.parity.work.worker_input import (
    Acceptance,
    Calibration,
    Job,
    OpenedModel,
    OutputRule,
    Target,
    TargetCalibration,
)
from tests.export.parity.work.lookup_runtime import spec

FLOOR = 1e-7  # a share of the sample: the tolerance is 8e-7
NOISE = 1e-6  # next to the rows: 8e-6 is allowed there
OFF = {"broken": 2e-5, "sound": 4e-6, "broken at first": 4e-6}


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class KnownSession:
    """A reference that returns its inputs, and two runtimes that are off by as much as is known."""

    def __init__(self) -> None:
        self.targets = {key: SimpleNamespace(seconds=0.0, begin_shard=lambda *given: None) for key in OFF}

    def ask(self, batches: Sequence[Batch], targets: Sequence[Target], in_float32: frozenset[str]) -> Any:
        x = [batch.inputs["x"] for batch in batches]
        expected = {target.key: done([{"y": rows} for rows in x]) for target in targets}
        off = {target.key: np.float32(OFF[target.key]) for target in targets}
        return expected, {
            key: done([[Answer(slice(0, len(rows)), {"y": rows + self._off(key, far, rows)})] for rows in x])
            for key, far in off.items()
        }

    def _off(self, key: str, far: np.float32, rows: np.ndarray) -> np.ndarray:
        """Returns by how much each row is off: the first row of the data by more where a runtime is broken there."""
        is_first = (rows[:, :1] == 0) & (key == "broken at first")
        return np.where(is_first, np.float32(OFF["broken"]), far)

    def truth(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": inputs["x"].astype(np.float64)}

    def noise(self, samples: Sequence[Any], precision: str | None) -> list[dict[str, np.ndarray]]:
        return [{"y": np.full(len(sample["x"]), NOISE)} for sample in samples]


def test_the_verdict_on_a_row_depends_on_no_other_row_and_on_no_other_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def session_of(job: Job) -> Iterator[KnownSession]:
        yield KnownSession()

    monkeypatch.setattr(shard, "session_of", session_of)
    source = open_mapping({"x": np.repeat(np.arange(6, dtype=np.float32)[:, None] / 64, 2, axis=1)})
    targets = tuple(Target(Path(key), spec("Doubling"), key) for key in OFF)
    accepted = (Batching(batch_size=2), Acceptance())
    job = Job(OpenedModel(Path("model"), "model"), targets, without_parts(source), *accepted, None, 60.0)
    feed = Feed.match((TensorInfo("x", ("rows", 2), "float32"),), job.batching, source.columns, source.name)
    rules = {"y": OutputRule(FLOOR, 8 * FLOOR, None)}
    calibration = Calibration("model", "", "", feed, {key: TargetCalibration(rules=rules) for key in OFF})
    (one,) = shards_of(source)
    found = shard.run_shard(job, calibration, one, tuple(OFF))
    assert {key: tally.statistics.failed for key, tally in found.items()} == {
        "broken": 6,
        "sound": 0,
        "broken at first": 1,
    }
