"""Encodings of whole positions match values with 50 digits, in every runtime that runs the file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import export_litert, export_onnx, export_saved_model
from keras_pe.export.runtimes.worker import Worker
from tests.export.runtimes.external.present import need
from tests.layers.far import inputs_of, layer_of, positions_of, returned_by, stored_cases, tolerance

# Fractions need sines in the runtime, which WebGPU promises to 2**-11 only.
CASES = [each for each in stored_cases() if all(positions.dtype == "int32" for positions in positions_of(each[1]))]
KINDS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "model": (export_saved_model, ("tensorflow",)),
    "model.tflite": (export_litert, ("litert",)),
    "model.onnx": (
        export_onnx,
        ("onnxruntime[disabled]", "onnxruntime[all]", "onnxruntime_web[wasm]", "onnxruntime_web[webgpu]"),
    ),
}


@pytest.fixture(scope="module")
def every() -> tuple[keras.Model, dict[str, np.ndarray]]:
    """A model with an output for each case, and what it is given."""
    arrays: dict[str, np.ndarray] = {}
    symbols: dict[str, Any] = {}
    outputs = {}
    for number, (_, case, _) in enumerate(CASES):
        is_alone = case["layer"] == "TimestepEmbedding"
        rows = [] if "coordinates" in case["arguments"] else positions_of(case)
        given = {f"p{number}_{axis}": each if is_alone else each[np.newaxis] for axis, each in enumerate(rows)}
        given |= {} if is_alone else {f"x{number}": inputs_of(case)}
        made = {name: keras.Input(batch_shape=x.shape, dtype=x.dtype.name, name=name) for name, x in given.items()}
        positions = [symbol for name, symbol in made.items() if name.startswith("p")]
        outputs[f"y{number}"] = returned_by(layer_of(case, "float32"), case, made.get(f"x{number}"), positions)
        arrays |= given
        symbols |= made
    return keras.Model(symbols, outputs), arrays


@pytest.mark.slow_rows(3)
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_encodings_arrive_exact(
    every: tuple[keras.Model, dict[str, np.ndarray]], kind: str, tmp_path: Path, subtests: Any
) -> None:
    export, runtimes = KINDS[kind]
    path = export(every[0], tmp_path / kind).path
    for runtime in runtimes:
        with subtests.test(runtime), Worker(need(runtime), timeout=120) as worker:
            worker.load(path)
            returned = worker.run(every[1])
            for number, (name, case, signal) in enumerate(CASES):
                off = np.abs(returned[f"y{number}"].astype(np.float64) - signal)
                assert (off <= tolerance(case, signal, "float32")).all(), name
