"""Measures the cost of a whole parity check, as a multiple of its bare runs.

The bare runs are those of Keras, of its float64 rebuild and of each runtime, with everything imported, built and
loaded. They have the same inputs in the same order. The check does the same, and makes the inputs, compares every
output and reports.
Imports and the loading of artifacts are left out on both sides, because the check cannot make them cheaper.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import keras

import keras_pe
from keras_pe.export import export_onnx
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.worker import Worker

REPEATS = 5


def build() -> keras.Model:
    """Returns a Transformer encoder."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = keras_pe.SinusoidalPositionEncoding()(keras.layers.Embedding(5000, 256, mask_zero=True)(tokens))
    for _ in range(4):
        x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(4, 64)(x, x))
        widened = keras.layers.Dense(1024, activation="relu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(256)(widened))
    return keras.Model(tokens, keras.layers.Dense(10, activation="softmax")(x), name="encoder")


def measure() -> list[float]:
    """Returns the ratios of the check to the bare runs, the first left out."""
    model = build()
    with tempfile.TemporaryDirectory() as folder:
        path = export_onnx(model, Path(folder) / "encoder.onnx").path
        reference = KerasReference(model)
        specs = find_runtimes(["onnxruntime"])
        return [_whole(reference, specs, path) / _bare(reference, specs, path) for _ in range(REPEATS + 1)][1:]


def _bare(reference: KerasReference, specs: Sequence[RuntimeSpec], path: Path) -> float:
    cases = sweep(reference.inputs, reference.roles, seed=0)
    seconds = 0.0
    for keras_model in (reference.model, reference.float64_model):
        start = time.perf_counter()
        for case in cases:
            reference.predict(keras_model, case.inputs)
        seconds += time.perf_counter() - start
    for spec in specs:
        with Worker(spec, 600) as worker:
            worker.load(path)
            for case in cases:
                worker.run(case.inputs)
            seconds += worker.seconds  # inside the runtime, without the way to the other process and back
    return seconds


def _whole(reference: KerasReference, specs: Sequence[RuntimeSpec], path: Path) -> float:
    start = time.perf_counter()
    expectations = reference.answer(sweep(reference.inputs, reference.roles, seed=0))
    seconds = time.perf_counter() - start
    for spec in specs:
        with Worker(spec, 600) as worker:
            worker.load(path)
            loaded = _Loaded(worker)
            start = time.perf_counter()
            run = run_cases(cast(Worker, loaded), spec, path, reference, expectations)
            seconds += time.perf_counter() - start
            assert run.result.passed
    return seconds


class _Loaded:
    """A worker whose artifact is loaded already."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __getattr__(self, name: str) -> object:
        return getattr(self._worker, name)

    def load(self, path: Path | None = None, spec: RuntimeSpec | None = None) -> None:
        pass
