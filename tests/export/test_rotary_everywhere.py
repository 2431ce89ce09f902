"""Rotations in a file are as exact in every runtime that runs it as they are in Keras."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe import RotaryPositionEncoding
from keras_pe.export import export_litert, export_onnx, export_saved_model
from keras_pe.export.runtimes.worker import Worker
from tests.export.runtimes.external.present import need
from tests.layers.rotated import CHANNELS, POSITIONS, UNITS, check_rotated

LEVELS = ("disabled", "basic", "extended", "layout", "all")
ONNX_RUNTIMES = (*(f"onnxruntime[{level}]" for level in LEVELS), "onnxruntime_web[wasm]", "onnxruntime_web[webgpu]")
RUNTIMES = {
    "saved_model": ("tensorflow",),
    "litert": ("litert",),
    "onnx": ONNX_RUNTIMES,
    "onnx, the standard's operator": ONNX_RUNTIMES,
    "onnx float16": (f"onnxruntime[{LEVELS[0]}]", f"onnxruntime[{LEVELS[-1]}]"),
}


def write(kind: str, folder: Path) -> Path:
    """Writes a rotary layer at positions that it is given."""
    x = keras.Input((None, 1, CHANNELS), name="x", dtype="float16" if kind == "onnx float16" else None)
    positions = keras.Input((None,), dtype="int32", name="positions")
    layer = RotaryPositionEncoding(base=5e5, dtype="float16" if kind == "onnx float16" else None)
    model: Any = keras.Model([x, positions], layer(x, positions=positions))
    if kind == "saved_model":
        return export_saved_model(model, folder / "model").path
    if kind == "litert":
        return export_litert(model, folder / "model.tflite").path
    opset = 23 if kind.endswith("operator") else 18
    return export_onnx(model, folder / "model.onnx", opset_version=opset, half_precision=kind == "onnx float16").path


@pytest.fixture(scope="module", params=RUNTIMES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A kind of file, and one of it."""
    return request.param, write(request.param, tmp_path_factory.mktemp("written"))


@pytest.mark.slow
def test_rotations_are_exact_at_positions_to_two_to_the_24(written: tuple[str, Path], subtests: Any) -> None:
    kind, path = written
    dtype = "float16" if kind == "onnx float16" else "float32"
    for runtime in RUNTIMES[kind]:
        with subtests.test(runtime), Worker(need(runtime), timeout=120) as worker:
            worker.load(path)
            (turned,) = worker.run({"x": UNITS.astype(dtype), "positions": POSITIONS}).values()
            assert turned.dtype == dtype
            check_rotated(turned.astype(np.float32), dtype)
