"""A result is stored whole under the name of its task, and a task that ends workers is given up."""

import errno
import socket
import zipfile
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_pe.export.errors import ForeignExitError
from keras_pe.export.parity.data.shards import Shard
from keras_pe.export.parity.npz_archive import write_archive
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics, Severity, WorstRow
from keras_pe.export.parity.work.executors import WorkerDiedError
from keras_pe.export.parity.work.schedule import MAX_TRIES, Checkpoint, Task, result_key, run_tasks

SHARD = Shard(3, 300, 100, "here", None, "mark")
FOUND = RuntimeStatistics(rows=100, failed=1)
KEY = result_key(model="a", rules={"y": 1.0})


def test_saved_results_are_stored_and_nothing_else(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new")
    assert checkpoint.load(KEY, SHARD) is None
    checkpoint.save(KEY, SHARD, FOUND)
    assert checkpoint.load(KEY, SHARD) == FOUND
    assert len(list((tmp_path / "new").iterdir())) == 1


def test_a_file_in_the_place_of_the_folder_is_refused_by_the_name_of_the_argument(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with pytest.raises(NotADirectoryError, match=r"`checkpoint_dir` must be a folder\. Received: .*kept, a file"):
        Checkpoint(tmp_path / "kept")


@pytest.mark.parametrize(
    ("key", "shard"),
    [
        (result_key(model="b", rules={"y": 1.0}), SHARD),
        (result_key(model="a", rules={"y": 2.0}), SHARD),
        (KEY, Shard(3, 300, 100, "here", None, "another mark")),
        (KEY, Shard(4, 300, 100, "here", None, "mark")),
    ],
)
def test_another_model_option_or_row_is_another_result(tmp_path: Path, key: str, shard: Shard) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(KEY, SHARD, FOUND)
    assert checkpoint.load(key, shard) is None


def test_half_a_result_is_none(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(KEY, SHARD, FOUND)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    assert checkpoint.load(KEY, SHARD) is None
    checkpoint.save(KEY, SHARD, FOUND)
    assert checkpoint.load(KEY, SHARD) == FOUND


@pytest.mark.parametrize("kind", ["empty", "a folder", "another archive", "another result"])
def test_a_file_that_is_not_a_result_of_these_rows_is_ignored(tmp_path: Path, kind: str) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(KEY, SHARD, FOUND)
    (path,) = tmp_path.iterdir()
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "a folder":
        path.mkdir()
    elif kind == "another archive":
        write_archive(path, {"model": "net", "cases": {}})
        with zipfile.ZipFile(path, "a") as file:
            file.comment = path.name.encode()
    else:
        checkpoint.save(KEY, Shard(4, 400, 100, "here", None, "mark"), FOUND)
        (other,) = tmp_path.iterdir()
        other.rename(path)
    assert checkpoint.load(KEY, SHARD) is None


@pytest.mark.slow
def test_a_result_with_any_byte_damaged_is_whole_or_none(tmp_path: Path) -> None:
    array = {"x": np.arange(3.0)}
    row = WorstRow(17, "here", 3, 0, Severity.FAILED, 2.0, inputs=array, expected=array, actual=array)
    whole = RuntimeStatistics(rows=100, failed=1, worst=(row,))
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(KEY, SHARD, whole)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    lost = 0
    for place in range(len(content)):
        for flipped in (0x01, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= flipped
            path.write_bytes(damaged)
            found = checkpoint.load(KEY, SHARD)
            assert found is None or found.to_bytes() == whole.to_bytes(), place
            lost += found is None
    assert lost > len(content)


def test_a_full_disk_is_told_with_what_stays(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "results")
    (tmp_path / "results").rmdir()
    (tmp_path / "results").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"could not be written to .*results"):
        checkpoint.save(KEY, SHARD, FOUND)


class Dying(Executor):
    """Has workers that die at every task."""

    def __init__(self) -> None:
        self.asked = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked += 1
        future: Future[Any] = Future()
        future.set_exception(WorkerDiedError("signal 9"))
        return future


class Raising(Executor):
    """Has workers that raise an error some times, and then answer."""

    def __init__(self, error: BaseException, times: int) -> None:
        self.error, self.times, self.asked = error, times, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked += 1
        future: Future[Any] = Future()
        if self.asked <= self.times:
            future.set_exception(self.error)
        else:
            future.set_result(fn(*args, **kwargs))
        return future


class CommClosedError(OSError):
    """As that of Dask."""


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("the scheduler did not answer"),
        ConnectionResetError(104, "Connection reset by peer"),
        BrokenPipeError(32, "Broken pipe"),
        CommClosedError("in <TCP>: Stream is closed"),
        socket.gaierror(-3, "Temporary failure in name resolution"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        EOFError(),
        MemoryError(),
        WorkerDiedError("signal 9"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_lost_connection_is_tried_again(error: BaseException) -> None:
    executor = Raising(error, MAX_TRIES - 1)
    assert [result for _, result in run_tasks(executor, iter([Task("row 1", abs, (-1,))]), 1)] == [1]
    assert executor.asked == MAX_TRIES
    with pytest.raises(BrokenExecutor, match=f"{MAX_TRIES} times at row 1: {type(error).__name__}"):
        list(run_tasks(Raising(error, MAX_TRIES), iter([Task("row 1", abs, (-1,))]), 1))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no rows"),
        OverflowError("-1 for uint8"),
        KeyError("x"),
        ForeignExitError("SystemExit"),
        FileNotFoundError(2, "No such file", "rows.npz"),
        PermissionError(13, "Permission denied", "rows.npz"),
        OSError(errno.EIO, "Input/output error", "rows.npz"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_every_worker_would_raise_is_raised_at_once(error: BaseException) -> None:
    executor = Raising(error, MAX_TRIES)
    with pytest.raises(type(error)):
        list(run_tasks(executor, iter([Task("row 1", abs, (-1,))]), 1))
    assert executor.asked == 1


def test_a_task_whose_workers_keep_dying_is_given_up_with_the_error_that_is_promised() -> None:
    executor = Dying()
    with pytest.raises(BrokenExecutor, match=f"died {MAX_TRIES} times at row 1: WorkerDiedError: signal 9"):
        list(run_tasks(executor, iter([Task("row 1", abs, (-1,))]), 1))
    assert executor.asked == MAX_TRIES
