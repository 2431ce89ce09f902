"""A million rows: one that is wrong is found, named and replayed, and the memory is that of a hundred thousand."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.parity.bundle import write_bundle
from keras_pe.export.parity.dataset.check_dataset import check_dataset
from keras_pe.export.parity.replay import replay_bundle
from keras_pe.export.parity.work.executors import ProcessPool
from tests.export.parity.dataset.conftest import MAGIC, Files


def write_rows(path: Path, rows: int, magic: int) -> Path:
    """Writes rows for the classifier, a piece at a time."""
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (rows, 8))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 50_000):
        piece = mapped[start : start + 50_000]
        piece[:] = rng.standard_normal(piece.shape)
    mapped[magic, 0] = MAGIC
    mapped.flush()
    return path


RUN = """
import sys
from pathlib import Path

from keras_pe.export.parity.dataset.check_dataset import check_dataset


def peaks(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return own + sum(peaks(child) for task in tasks for child in (task / "children").read_text().split())


def watch(done, total, what):
    if what == "looking at the worst rows":
        print(peaks("self"))


check_dataset(*sys.argv[1:], workers=1, progress=watch)
"""


def memory(files: Files, data: Path) -> int:
    """Returns the most memory, in KiB, that a check has held: the caller, its worker and the runtime's process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", RUN, str(files.model), str(files.onnx), str(data)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


# In CI the first of the two: a fixed sample of what the second runs.
SIZES = [
    pytest.param(20_000, 200_000, marks=pytest.mark.slow),
    pytest.param(100_000, 1_000_000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(3600)]),
]


@pytest.mark.parametrize(("few", "many"), SIZES)
def test_ten_times_the_rows_take_no_more_memory(files: Files, tmp_path: Path, few: int, many: int) -> None:
    small = memory(files, write_rows(tmp_path / "few.npy", few, 5))
    large = memory(files, write_rows(tmp_path / "many.npy", many, 5))
    print(f"{large:,} KiB at {many:,} rows, {small:,} KiB at {few:,}")
    assert large <= 1.1 * small, f"{large:,} KiB at {many:,} rows, {small:,} KiB at {few:,}"


@pytest.mark.parametrize(("few", "many"), SIZES)
def test_one_wrong_row_is_found_named_and_replayed(
    files: Files, pool: ProcessPool, tmp_path: Path, few: int, many: int
) -> None:
    wrong = int(0.765432 * many)
    data = write_rows(tmp_path / "many.npy", many, wrong)
    report = check_dataset(files.model, files.planted, data, workers=pool)
    (result,) = report.results
    assert (result.statistics.rows, result.statistics.failed) == (many, 1)
    assert result.statistics.worst[0].row == wrong
    assert result.statistics.worst[0].inputs["x"][0] == MAGIC
    assert report.diagnosis is not None
    write_bundle(report.diagnosis, tmp_path / "worst.npz")
    assert not replay_bundle(tmp_path / "worst.npz").passed
