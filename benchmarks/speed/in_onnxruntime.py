"""Runs the encodings in ONNX Runtime on the CPU: layers by this package's exporter, formulas by tf2onnx."""

import functools
import tempfile
from pathlib import Path

import keras
import onnxruntime as ort
import tf2onnx

from benchmarks.measuring import Run
from benchmarks.speed.contestants import Contestant
from benchmarks.speed.in_tensorflow import Signature, function, signature
from benchmarks.speed.scenarios import Arrays
from keras_pe.export import export_onnx

MODES = ("ONNX Runtime",)
OPENINGS = 8  # the memory addresses of an opening change the time of all its runs


def prepare(mode: str, contestant: Contestant, inputs: Arrays, static: bool, threads: int) -> Run:
    """Returns a run of a contestant's file on these inputs."""
    loaded = session(onnx_file(contestant, signature(inputs, static)), threads)
    return lambda: loaded.run(None, inputs)


@functools.cache
def onnx_file(contestant: Contestant, specs: Signature) -> bytes:
    """Returns the file of a contestant."""
    if not contestant.layer:
        model, _ = tf2onnx.convert.from_function(function(contestant, specs), specs, opset=18)
        return bytes(model.SerializeToString())
    inputs = {spec.name: keras.Input(batch_shape=spec.shape, dtype=spec.dtype.name, name=spec.name) for spec in specs}
    model = keras.Model(list(inputs.values()), contestant.make()(**inputs))
    with tempfile.TemporaryDirectory() as folder:
        return Path(export_onnx(model, Path(folder) / "encoding.onnx").path).read_bytes()


def session(file: bytes | Path, threads: int = 1) -> ort.InferenceSession:
    """Returns the loaded file."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    # A pool of threads waits busily for a while after a run: on the core that the next one, of another file, needs.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
