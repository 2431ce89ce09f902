"""Measures the cost of `check_dataset`: rows a second of one worker, beside a bare loop over the same rows.

The bare loop reads the rows, runs the compiled Keras model and ONNX Runtime one after the other, and does not compare.
Keras' call, the batches and the number of threads are the same. Imports and loading are left out on both sides.
Both run in turns, each in a subprocess. Other work on the machine changes the rows a second, and changes the
processor's time less. On the check's side the processor's time includes the caller and the runtime (Linux).

Usage: python -m benchmarks.dataset_cost [ROWS]
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import keras
import numpy as np

from keras_pe.export import Batching, check_dataset, export_onnx
from keras_pe.export.parity.work.executors import ProcessPool

BATCH, FEATURES, REPEATS = 1024, 64, 5


def build() -> keras.Model:
    """Returns a small classifier."""
    inputs = keras.Input((FEATURES,), name="x")
    hidden = keras.layers.Dense(256, activation="relu")(keras.layers.Dense(256, activation="relu")(inputs))
    return keras.Model(inputs, keras.layers.Dense(10, activation="softmax", name="p")(hidden), name="classifier")


def bare(model: str, artifact: str, data: str) -> float:
    """Returns the rows a second of the loop. Runs in a worker."""
    import onnxruntime

    from keras_pe.export.comparison.references.keras import KerasReference
    from keras_pe.export.model.saved_file import load_model

    reference = KerasReference(load_model(Path(model)), compiled=True)
    session = onnxruntime.InferenceSession(artifact, providers=["CPUExecutionProvider"])
    rows = np.load(data, mmap_mode="r")
    seconds = 0.0
    for start in range(-BATCH, len(rows) - BATCH + 1, BATCH):  # the first turn is not counted: it traces
        begin = time.perf_counter()
        batch = np.array(rows[max(start, 0) : max(start, 0) + BATCH])
        reference.expect({"x": batch})
        session.run(None, {"x": batch})
        seconds += time.perf_counter() - begin if start >= 0 else 0.0
    return len(rows) / seconds


def check_rows(pool: ProcessPool, model: str, artifact: str, data: str) -> float:
    """Returns the rows a second of the check, from the first shard that is done to the last."""
    times: list[tuple[float, int]] = []
    report = check_dataset(
        model,
        artifact,
        data,
        batching=Batching(batch_size=BATCH),
        workers=pool,
        progress=lambda done, total, what: times.append((time.perf_counter(), done)),
    )
    assert report.passed, str(report)
    done = [(moment, rows) for moment, rows in times if rows]
    (first, before), (last, after) = done[0], done[-2]  # the last call is about the worst rows
    return (after - before) / (last - first)


def processor_seconds(pid: int) -> float:
    """Returns the processor time of a process and its children so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _words(task / "children")]
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(child) for child in children)


def _words(path: Path) -> list[str]:
    return path.read_text().split()


def main() -> None:
    """Prints both rates and the processor's time of both, in turns, and the medians of their ratios."""
    from benchmarks.dataset_cost import bare as by_name  # a worker finds no function of `__main__`

    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        files = model, artifact, data = tuple(
            str(Path(folder) / name) for name in ("model.keras", "model.onnx", "x.npy")
        )
        built = build()
        built.save(model)
        export_onnx(built, artifact)
        np.save(data, np.random.default_rng(0).standard_normal((rows, FEATURES), np.float32))
        rates, costs = [], []
        loop, pool = ProcessPool(1), ProcessPool(1)
        loop.submit(by_name, *files).result()  # both load once before the first turn
        check_rows(pool, *files)
        for _ in range(REPEATS):
            before = processor_seconds(*loop.pids)
            one = loop.submit(by_name, *files).result()
            alone = processor_seconds(*loop.pids) - before
            before = processor_seconds(*pool.pids) + time.process_time()
            other = check_rows(pool, *files)
            beside = processor_seconds(*pool.pids) + time.process_time() - before
            rates.append(other / one)
            costs.append(alone / beside)
            print(
                f"bare loop {one:,.0f} rows/s, {alone:.2f} s of the processor; "
                f"check {other:,.0f} rows/s, {beside:.2f} s of the processor; "
                f"ratio {rates[-1]:.2f}, of the processor's time {costs[-1]:.2f}"
            )
        loop.shutdown()
        pool.shutdown()
    print(
        f"median ratio of {REPEATS}: {statistics.median(rates):.2f}, "
        f"of the processor's time {statistics.median(costs):.2f}"
    )


if __name__ == "__main__":
    main()
