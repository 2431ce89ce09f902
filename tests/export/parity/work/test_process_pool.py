"""The processes of a pool run this package and what is installed, nothing of the current folder."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from keras_pe.export.parity.work.executors import ProcessPool, WorkerDiedError


def test_a_module_in_the_current_folder_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickle.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    with ProcessPool(1) as pool:
        assert pool.submit(abs, -3).result() == 3
    assert not (tmp_path / "ran").exists()


def test_a_pool_that_is_ended_begins_none_of_the_tasks_that_wait() -> None:
    pool = ProcessPool(1)
    first, *waiting = [pool.submit(time.sleep, 600) for _ in range(4)]
    while not pool.pids:
        time.sleep(0.01)
    pool.shutdown(wait=False)
    with pytest.raises(WorkerDiedError, match=r"^a worker process ended with signal 9"):
        first.result()
    assert all(each.cancelled() for each in waiting)
    assert not pool.pids


class Unreadable:
    """Is written, and raises when it is read."""

    def __reduce__(self) -> Any:
        return divmod, (1, 0)


def unreadable() -> Any:
    return Unreadable()


@pytest.mark.slow
def test_an_answer_that_cannot_be_read_costs_its_task_and_the_next_gets_another_process() -> None:
    with ProcessPool(1) as pool:
        before = pool.submit(os.getpid).result()
        with pytest.raises(WorkerDiedError, match="ZeroDivisionError"):
            pool.submit(unreadable).result()
        assert pool.submit(abs, -3).result() == 3
        assert pool.submit(os.getpid).result() != before
