"""A run that was killed goes on where it was, and comes to the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from keras_pe.export.parity.dataset.check import check_dataset
from keras_pe.export.parity.dataset.sources.source import SHARD_ROWS
from tests.cli.test_check_data import write_model

RUN = """
import os, signal, sys
from keras_pe.export.parity.dataset.check import check_dataset

def kill(done, total, what):
    if done >= 2 * {shard}:
        os.kill(os.getpid(), signal.SIGKILL)

check_dataset("model.onnx", "planted.onnx", "data.npz", workers=1, checkpoint_dir="kept", progress=kill)
"""


def test_a_run_that_was_killed_goes_on_and_comes_to_the_same_bytes(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5 * SHARD_ROWS, 4)).astype("float32")
    x[[100, 4 * SHARD_ROWS + 1], 2] = 10.0
    model, planted = write_model(tmp_path / "model.onnx", None), write_model(tmp_path / "planted.onnx", 9.0)
    np.savez(tmp_path / "data.npz", x=x)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = RUN.format(shard=SHARD_ROWS)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == -9, done.stderr
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert len(kept) >= 2
    again = check_dataset(model, planted, tmp_path / "data.npz", workers=0, checkpoint_dir=tmp_path / "kept")
    assert again.reused == len(kept) * SHARD_ROWS
    assert again.rows == len(x)
    fresh = check_dataset(model, planted, tmp_path / "data.npz", workers=0)
    assert fresh.reused == 0
    assert fresh.results[0].statistics.failed == 2
    assert again.results[0].statistics.to_bytes() == fresh.results[0].statistics.to_bytes()
