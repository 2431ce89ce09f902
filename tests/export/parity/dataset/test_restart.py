"""A run that was killed goes on where it was, and comes to the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.parity.data.source import SHARD_ROWS
from keras_pe.export.parity.dataset.check_dataset import check_dataset
from keras_pe.export.parity.work.executors import ProcessPool
from tests.cli.test_check_data import write_model
from tests.export.parity.dataset.conftest import Files, draw

RUN = """
import os, signal, sys
from keras_pe.export.parity.dataset.check_dataset import check_dataset

model, artifact, data, kept, rows = sys.argv[1:]

def kill(done, total, what):
    if done >= int(rows):
        os.kill(os.getpid(), signal.SIGKILL)

check_dataset(model, artifact, data, workers=1, checkpoint_dir=kept, progress=kill)
"""

FORK = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from keras_pe.export.parity.dataset.check_dataset import check_dataset

model, artifact, data = sys.argv[1:]
check_dataset(model, artifact, data, workers=0)
with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as forked:
    report = check_dataset(model, artifact, data, workers=forked)
print(report.rows, report.results[0].statistics.failed)
"""


def run_and_kill(model: Path, artifact: Path, data: Path, kept: Path, rows: int) -> int:
    """Runs a check in a process that is killed after so many rows, and returns how many results it leaves."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", RUN, *map(str, (model, artifact, data, kept, rows))]
    done = subprocess.run(command, env=environment, capture_output=True)
    assert done.returncode == -9, done.stderr
    return len([path for path in kept.iterdir() if path.suffix == ".npz"])


@pytest.mark.parametrize(
    "rows",  # in CI the first: a fixed sample of what the second runs
    [
        pytest.param(40_000, marks=pytest.mark.slow),
        pytest.param(1_000_000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(3600)]),
    ],
)
def test_a_model_that_was_killed_in_the_middle_comes_to_the_bytes_of_one_run(
    files: Files, pool: ProcessPool, tmp_path: Path, rows: int
) -> None:
    np.save(tmp_path / "x.npy", draw(rows, magic=31_415))
    options = {"model": files.model, "artifacts": files.planted, "data": tmp_path / "x.npy"}
    kept = run_and_kill(files.model, files.planted, tmp_path / "x.npy", tmp_path / "kept", rows // 2)
    again = check_dataset(**options, workers=pool, checkpoint_dir=tmp_path / "kept")
    assert again.rows == rows
    assert again.reused_rows == kept * SHARD_ROWS
    fresh = check_dataset(**options, workers=pool)
    assert fresh.results[0].statistics.failed == 1
    assert again.results[0].statistics.to_bytes() == fresh.results[0].statistics.to_bytes()


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_and_comes_to_the_same_bytes(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5 * SHARD_ROWS, 4)).astype("float32")
    x[[100, 4 * SHARD_ROWS + 1], 2] = 10.0
    model, planted = write_model(tmp_path / "model.onnx", None), write_model(tmp_path / "planted.onnx", 9.0)
    np.savez(tmp_path / "data.npz", x=x)
    kept = run_and_kill(model, planted, tmp_path / "data.npz", tmp_path / "kept", 2 * SHARD_ROWS)
    assert kept >= 2
    again = check_dataset(model, planted, tmp_path / "data.npz", workers=0, checkpoint_dir=tmp_path / "kept")
    assert again.reused_rows == kept * SHARD_ROWS
    assert again.rows == len(x)
    fresh = check_dataset(model, planted, tmp_path / "data.npz", workers=0)
    assert fresh.reused_rows == 0
    assert fresh.results[0].statistics.failed == 2
    assert again.results[0].statistics.to_bytes() == fresh.results[0].statistics.to_bytes()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_worker_that_is_forked_from_a_process_that_has_a_session_opens_its_own(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3 * SHARD_ROWS, 4)).astype("float32")
    x[[100, 2 * SHARD_ROWS + 1], 2] = 10.0
    model, planted = write_model(tmp_path / "model.onnx", None), write_model(tmp_path / "planted.onnx", 9.0)
    np.savez(tmp_path / "data.npz", x=x)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "ignore", "-c", FORK, *map(str, (model, planted, tmp_path / "data.npz"))]
    with (tmp_path / "said").open("w") as said:  # no pipe: workers that hang would hold it open
        subprocess.run(command, env=environment, stdout=said, stderr=said, timeout=60, check=False)
    assert (tmp_path / "said").read_text() == f"{len(x)} 2\n"
