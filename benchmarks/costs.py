"""Measures the size of an encoding in a file, its time to load and to build, and the memory of a call."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.measuring import peak_bytes, run_in_process, time_in_turns
from benchmarks.speed.contestants import CONTESTANTS, Contestant, ours
from benchmarks.speed.in_onnxruntime import onnx_file, session
from benchmarks.speed.in_tensorflow import MODES, function, signature
from benchmarks.speed.scenarios import CHANNELS, SCENARIOS
from keras_pe import SinusoidalPositionEncoding, identify, timing_signal
from keras_pe.export import export_saved_model

MANY = 65_536  # rows
MEASURED = ("tensor2tensor", "keras_pe", "keras_pe, max_length")


def measure() -> dict[str, dict[str, Any]]:
    """Returns `seconds`, lists of them, and `bytes`, by name."""
    chosen = [each for each in CONTESTANTS if each.name in MEASURED]
    many = Contestant(f"keras_pe, max_length={MANY}", lambda: ours(max_length=MANY))
    specs = signature(SCENARIOS["range"].inputs(1, 128))
    files = {each.name: onnx_file(each, specs) for each in (*chosen, many)}
    sizes = {f"onnx/{name}": len(file) for name, file in files.items()}
    sizes |= {f"onnx, three layers/{each.name}": len(onnx_file(_thrice(each), specs)) for each in chosen}
    sizes |= {f"saved model, three layers/{each.name}": _saved_model_bytes(each) for each in chosen}
    sizes |= memory()
    seconds = time_in_turns({f"load/{name}": partial(session, file) for name, file in files.items()})
    seconds |= time_in_turns({f"build/{name}": partial(_build, length) for name, length in _LENGTHS.items()}, rounds=3)
    tables = {f"identify/{rows}x{columns}": _table(rows, columns) for rows, columns in _TABLES}
    seconds |= time_in_turns({name: partial(identify, table) for name, table in tables.items()}, rounds=3)
    return {"seconds": seconds, "bytes": sizes}


_LENGTHS = {"keras_pe": None, "keras_pe, max_length": 8192, f"keras_pe, max_length={MANY}": MANY}
_TABLES = ((5_000, 4_096), (100_000, 512))


def _thrice(contestant: Contestant) -> Contestant:
    def make() -> Any:
        layers = [contestant.make() for _ in range(3)]
        return lambda x: layers[2](layers[1](layers[0](x)))

    return Contestant(contestant.name, make, layer=contestant.layer)


def _saved_model_bytes(contestant: Contestant) -> int:
    inputs = keras.Input((None, CHANNELS), name="x")
    with tempfile.TemporaryDirectory() as folder:
        if contestant.layer:
            export_saved_model(keras.Model(inputs, _thrice(contestant).make()(inputs)), Path(folder) / "model")
        else:
            module = tf.Module()
            module.serve = tf.function(_thrice(contestant).make(), [tf.TensorSpec([None, None, CHANNELS])])
            tf.saved_model.save(module, folder)
        return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def memory() -> dict[str, int]:
    """Returns the memory of a call with positions given, beyond its inputs and what the model holds."""
    pairs = [(mode, name) for mode in MODES[:2] for name in MEASURED]
    return {f"memory, {mode}/{name}": run_in_process("costs:memory_of", mode, name) for mode, name in pairs}


def memory_of(mode: str, name: str) -> int:
    """Returns the memory of one contestant, measured in a subprocess because an allocator never shrinks."""
    (contestant,) = (each for each in CONTESTANTS if each.name == name)
    small, large = (contestant.inputs(SCENARIOS["positions"], *shape) for shape in ((1, 2), (32, 512)))
    if mode == MODES[0]:
        call = contestant.make()
    else:
        traced = function(contestant, signature(large))

        def call(**tensors: tf.Tensor) -> tf.Tensor:
            return traced(*tensors.values())

    first, second = ({key: tf.constant(value) for key, value in each.items()} for each in (small, large))
    call(**first)
    return peak_bytes(lambda: call(**second))


def _build(max_length: int | None) -> None:
    SinusoidalPositionEncoding(max_length=max_length).build((None, None, CHANNELS))


def _table(rows: int, columns: int) -> np.ndarray:
    return timing_signal(np.arange(rows), columns).astype(np.float32)
