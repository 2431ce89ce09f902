"""Files of other exporters: Keras' own ONNX on its three backends, a bare tf2onnx file, a SavedModel of `model.export`.

    KERAS_BACKEND=jax python -m tests.export.parity.other_exporters FOLDER

writes a model and the ONNX file that Keras makes of it on this backend, as the tests do in a process of its own.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import onnx
from onnx import numpy_helper

from keras_pe import SinusoidalPositionEncoding


def build_model() -> keras.Model:
    """Returns a model of two inputs, and two outputs of one shape; of one length on JAX, as its exporter needs it."""
    keras.utils.set_random_seed(3)
    length = 5 if keras.backend.backend() == "jax" else None
    x, context = keras.Input((length, 8), name="x"), keras.Input((length, 6), name="context")
    encoded = SinusoidalPositionEncoding(name="encode")(x)
    hidden = keras.layers.Dense(6, activation="tanh", name="hidden")(encoded)
    inner = keras.layers.Add(name="inner")([hidden, keras.layers.Dense(6, name="beside")(context)])
    return keras.Model([x, context], {"score": keras.layers.Dense(6, name="score")(inner), "inner": inner})


def export_by_keras(model: keras.Model, path: Path) -> Path:
    """Exports a model as Keras does on this backend."""
    model([np.zeros((1, 5, each.shape[-1]), "float32") for each in model.inputs])  # it must have been called
    model.export(path, format="onnx", verbose=False)
    return path


def with_another_kernel(source: Path, path: Path, kernel: np.ndarray) -> Path:
    """Writes an ONNX file in which the one constant that holds a kernel holds its negative."""
    model = onnx.load(source)
    constants = {each.name: each for each in model.graph.initializer}
    nodes = (node for node in model.graph.node if node.op_type == "Constant")
    constants |= {node.output[0]: node.attribute[0].t for node in nodes if node.attribute[0].name == "value"}
    arrays = {name: numpy_helper.to_array(tensor) for name, tensor in constants.items()}
    (name,) = (name for name, array in arrays.items() if np.array_equal(array, kernel))
    constants[name].CopyFrom(numpy_helper.from_array(-kernel, constants[name].name))
    onnx.save(model, path)
    return path


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    model = build_model()
    model.save(folder / "model.keras")
    export_by_keras(model, folder / "model.onnx")
