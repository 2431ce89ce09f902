"""What checking a data set costs: rows a second of the check with one worker, against a bare loop over the same rows.

The bare loop reads the rows, runs the compiled Keras model and ONNX Runtime one after the other, and compares nothing.
Imports and loading are left out on both sides. Both run in turns, each in a process of its own.

Usage: python -m benchmarks.dataset_cost [ROWS]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import keras
import numpy as np

from keras_pe.export import check_dataset, export_onnx
from keras_pe.export.parity.dataset.executors.process_pool import ProcessPool

BATCH, FEATURES, REPEATS = 1024, 64, 3


def build() -> keras.Model:
    """Returns a small classifier."""
    inputs = keras.Input((FEATURES,), name="x")
    hidden = keras.layers.Dense(256, activation="relu")(keras.layers.Dense(256, activation="relu")(inputs))
    return keras.Model(inputs, keras.layers.Dense(10, activation="softmax", name="p")(hidden), name="classifier")


def bare(model: str, artifact: str, data: str) -> float:
    """Returns the rows a second of the loop. Runs in a worker."""
    import onnxruntime

    from keras_pe.export.parity.dataset.reference import KerasRows

    reference = KerasRows.load(Path(model), None)
    session = onnxruntime.InferenceSession(artifact, providers=["CPUExecutionProvider"])
    rows = np.load(data, mmap_mode="r")
    seconds = 0.0
    for start in range(-BATCH, len(rows) - BATCH + 1, BATCH):  # the first turn is not counted: it traces
        begin = time.perf_counter()
        batch = np.array(rows[max(start, 0) : max(start, 0) + BATCH])
        reference.run({"x": batch})
        session.run(None, {"x": batch})
        seconds += time.perf_counter() - begin if start >= 0 else 0.0
    return len(rows) / seconds


def checked(pool: ProcessPool, model: str, artifact: str, data: str) -> float:
    """Returns the rows a second of the check, from the first shard that is done to the last."""
    times: list[tuple[float, int]] = []
    report = check_dataset(
        model,
        artifact,
        data,
        batch_size=BATCH,
        executor=pool,
        progress=lambda done, total, what: times.append((time.perf_counter(), done)),
    )
    assert report.passed, str(report)
    done = [(moment, rows) for moment, rows in times if rows]
    (first, before), (last, after) = done[0], done[-2]  # the last call is about the worst rows
    return (after - before) / (last - first)


def main() -> None:
    """Prints both rates in turns, and the median of their ratio."""
    from benchmarks.dataset_cost import bare as by_name  # a worker finds no function of `__main__`

    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        model, artifact, data = (str(Path(folder) / name) for name in ("model.keras", "model.onnx", "x.npy"))
        built = build()
        built.save(model)
        export_onnx(built, artifact)
        np.save(data, np.random.default_rng(0).standard_normal((rows, FEATURES), np.float32))
        ratios = []
        loop, pool = ProcessPool(1), ProcessPool(1)
        for _ in range(REPEATS):
            one = loop.submit(by_name, model, artifact, data).result()
            other = checked(pool, model, artifact, data)
            ratios.append(other / one)
            print(f"bare loop {one:,.0f} rows/s, check {other:,.0f} rows/s, ratio {ratios[-1]:.2f}")
        loop.shutdown()
        pool.shutdown()
    print(f"median ratio of {REPEATS}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
