"""What an encoding adds to a model beside time: bytes in a file, time to load and to build it, memory of a call.

python -m benchmarks.costs
"""

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.measuring import interleaved, peak_bytes
from benchmarks.speed.contestants import CONTESTANTS, Contestant, ours
from benchmarks.speed.in_onnxruntime import onnx_file, session
from benchmarks.speed.in_tensorflow import MODES, prepare, signature
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
    sizes |= _memory(chosen)
    seconds = interleaved({f"load/{name}": partial(session, file) for name, file in files.items()})
    seconds |= interleaved({f"build/{name}": partial(_build, length) for name, length in _LENGTHS.items()}, rounds=3)
    tables = {f"identify/{rows}x{columns}": _table(rows, columns) for rows, columns in _TABLES}
    seconds |= interleaved({name: partial(identify, table) for name, table in tables.items()}, rounds=3)
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


def _memory(chosen: list[Contestant]) -> dict[str, int]:
    """Returns the memory of a call with positions given, beyond inputs and what the model holds."""
    scenario = SCENARIOS["positions"]
    found = {}
    for mode in MODES[:2]:
        for each in chosen:
            run = prepare(mode, each, each.inputs(scenario, 32, 512), scenario.static, 1)
            found[f"memory, {mode}/{each.name}"] = peak_bytes(run)
    return found


def _build(max_length: int | None) -> None:
    SinusoidalPositionEncoding(max_length=max_length).build((None, None, CHANNELS))


def _table(rows: int, columns: int) -> np.ndarray:
    return timing_signal(np.arange(rows), columns).astype(np.float32)


if __name__ == "__main__":
    print(json.dumps(measure()))
