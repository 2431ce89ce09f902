"""Every engine gives the same bytes: processes, a Dask cluster of two processes, and Ray."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.parity.dataset.check_dataset import check_dataset
from keras_pe.export.parity.work.executors import ProcessPool, cluster_executor
from tests.export.parity.dataset.conftest import Files, draw

ROWS = 20_000


def save(folder: Path, rows: int) -> Path:
    np.savez(folder / "data.npz", x=draw(rows, magic=3_141))
    return folder / "data.npz"


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """Starts a scheduler and workers, each a process of its own; yields the address and the workers."""
    address = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "dask", "scheduler"]
    options = ["--port", "0", "--no-dashboard", "--scheduler-file", str(address)]
    with (folder / "dask.log").open("w") as log:
        started = [subprocess.Popen([*command, *options], env=environment, stdout=log, stderr=log)]
        worker = [sys.executable, "-m", "dask", "worker", "--scheduler-file", str(address), "--no-dashboard"]
        worker += ["--nthreads", "1", "--local-directory", str(folder), "--no-nanny"]
        started += [subprocess.Popen(worker, env=environment, stdout=log, stderr=log) for _ in range(workers)]
        try:
            from distributed import Client

            with Client(scheduler_file=str(address), timeout=120, set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=120)
                place = client.scheduler_info()["address"].removeprefix("tcp://")
            yield f"dask://{place}", started[1:]
        finally:
            for process in started:
                process.kill()
                process.wait()


def statistics(files: Files, data: Path, **options: object) -> bytes:
    report = check_dataset(files.onnx, files.planted, data, **options)  # its workers import no TensorFlow
    print(f"{report.rows:,} rows in {report.seconds:.0f} s")
    assert report.rows == report.total
    assert report.results[0].statistics.failed == 1
    return report.results[0].statistics.to_bytes()


@pytest.mark.timeout(1500)  # seconds: two engines, each of which starts its workers
@pytest.mark.parametrize(
    "rows",  # in CI the first: a fixed sample of what the second runs
    [
        pytest.param(ROWS, marks=pytest.mark.slow),
        pytest.param(1_000_000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(3600)]),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
def test_processes_and_ray_give_the_same_bytes(files: Files, pool: ProcessPool, tmp_path: Path, rows: int) -> None:
    data = save(tmp_path, rows)
    expected = statistics(files, data, workers=pool)
    with cluster_executor("ray://") as executor:
        assert statistics(files, data, workers=executor) == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
def test_a_cluster_that_loses_a_node_goes_on(files: Files, pool: ProcessPool, tmp_path: Path) -> None:
    data = save(tmp_path, ROWS)
    expected = statistics(files, data, workers=pool)
    with dask_cluster(tmp_path, 2) as (address, workers), cluster_executor(address) as executor:
        lost: list[int] = []

        def lose_one(done: int, total: int | None, what: str) -> None:
            if done and not lost:
                lost.append(workers[0].pid)
                workers[0].send_signal(signal.SIGKILL)

        assert statistics(files, data, workers=executor, progress=lose_one) == expected
        assert lost


def test_an_address_of_no_known_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="one of dask://HOST:PORT, ray://HOST:PORT"), cluster_executor("tcp://a:1"):
        pass
