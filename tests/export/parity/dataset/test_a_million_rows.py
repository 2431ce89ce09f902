"""A million rows: one that is wrong is found, named and replayed, and the memory is that of a hundred thousand."""

from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.parity.bundle.bundle import write_bundle
from keras_pe.export.parity.bundle.replay import replay_bundle
from keras_pe.export.parity.dataset.check import check_dataset
from keras_pe.export.parity.dataset.executors.process_pool import ProcessPool
from tests.export.parity.dataset.conftest import MAGIC, Files


def write_rows(path: Path, rows: int, magic: int) -> Path:
    """Writes rows for the classifier, a piece at a time."""
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (rows, 8))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 50_000):
        mapped[start : start + 50_000] = rng.standard_normal((50_000, 8))
    mapped[magic, 0] = MAGIC
    mapped.flush()
    return path


def peak(pids: list[int]) -> int:
    """Returns the most memory that the processes have held since they started, in KiB."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def run(files: Files, data: Path) -> tuple[object, int]:
    """Returns the report, and the peak of this process' worker."""
    pool = ProcessPool(1)
    try:
        report = check_dataset(files.model, files.planted, data, executor=pool)
        return report, peak(pool.pids)
    finally:
        pool.shutdown()


@pytest.mark.exhaustive
def test_one_wrong_row_of_a_million_is_found_named_and_replayed_in_flat_memory(files: Files, tmp_path: Path) -> None:
    _, small = run(files, write_rows(tmp_path / "few.npy", 100_000, 5))
    report, large = run(files, write_rows(tmp_path / "many.npy", 1_000_000, 765_432))
    (result,) = report.results
    assert (result.statistics.rows, result.statistics.failed) == (1_000_000, 1)
    assert result.statistics.worst[0].row == 765_432
    assert result.statistics.worst[0].inputs["x"][0] == MAGIC
    write_bundle(report.diagnosis, tmp_path / "worst.npz")
    assert not replay_bundle(tmp_path / "worst.npz").passed
    assert large <= 1.1 * small, f"{large:,} KiB at a million rows, {small:,} KiB at a hundred thousand"
