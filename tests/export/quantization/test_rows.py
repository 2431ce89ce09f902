"""The rows of a quantization: a stopped call goes on, and memory does not grow with their number."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_pe.export import quantize
from tests.export.quantization.samples import ROWS, write_classifier

# Prints the most memory of this process and of its subprocesses, in KiB.
MEASURE = """
import resource, sys
import numpy as np
from keras_pe.export import quantize
source, target, count = sys.argv[1:]
np.save("rows.npy", np.random.default_rng(0).standard_normal((int(count), 16)).astype("float32"))
if __name__ == "__main__":
    quantize(source, source, target, "rows.npy", size=0.9, trials=1, progress=False)
    print(*(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
"""


@pytest.mark.slow
def test_a_stopped_call_goes_on_after_the_rows_and_the_calibration(tmp_path: Path) -> None:
    source, target, checkpoint = write_classifier(tmp_path / "model.onnx"), tmp_path / "small.onnx", tmp_path / "kept"

    def messages_until(stop: str) -> list[str]:
        found: list[str] = []

        def tell(done: int, total: int | None, text: str) -> None:
            found.append(text)
            if stop and text.startswith(stop):
                raise KeyboardInterrupt

        try:
            quantize(source, source, target, {"x": ROWS}, size=0.9, trials=1, checkpoint_dir=checkpoint, progress=tell)
        except KeyboardInterrupt:
            assert stop
        return found

    assert "running the model" in messages_until("calibrating")
    again = messages_until("quantizing")
    assert "running the model" not in again
    assert "calibrating" in again
    assert not {"running the model", "calibrating"} & {*messages_until("")}
    assert target.exists()
    kept = target.read_bytes()
    quantize(source, source, target, {"x": ROWS}, size=0.9, trials=1)
    assert target.read_bytes() == kept


def most_memory(folder: Path, rows: int) -> list[int]:
    source = write_classifier(folder / "model.onnx")
    arguments = [sys.executable, "-c", MEASURE, str(source), str(folder / "small.onnx"), str(rows)]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True)
    return list(map(int, done.stdout.split()[-2:]))


@pytest.mark.slow
@pytest.mark.slow_rows(1)
@pytest.mark.parametrize("rows", [10_000, 100_000])
def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path, rows: int) -> None:
    few, many = most_memory(tmp_path, 1_000), most_memory(tmp_path, rows)
    assert np.subtract(many, few).max() < 40 * 1024, (few, many)
