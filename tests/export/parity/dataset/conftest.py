"""A small classifier, its artifact, and one in which a single row is wrong."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest

from keras_pe.export.parity.work.executors import ProcessPool

MAGIC = 123.25  # no normal variate comes near


class Files(NamedTuple):
    """The model and the data that tests of this folder check.

    Attributes:
        folder: The location of the files; tests write elsewhere.
        model: The classifier: `x` (batch, 8) to `p` (batch, 3).
        onnx: Its artifact.
        planted: The same, but that a row whose first value is `MAGIC` decides otherwise.
    """

    folder: Path
    model: Path
    onnx: Path
    planted: Path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    import keras

    from keras_pe.export import export_onnx

    folder = tmp_path_factory.mktemp("classifier")
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8,), name="x")
    hidden = keras.layers.Dense(16, activation="relu", name="hidden")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax", name="p")(hidden), name="classifier")
    found = Files(folder, folder / "model.keras", folder / "model.onnx", folder / "planted.onnx")
    model.save(found.model)
    export_onnx(model, found.onnx)
    plant(found.onnx, found.planted)
    return found


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPool]:
    """One worker process for all tests: it imports TensorFlow once."""
    found = ProcessPool(1)
    yield found
    found.shutdown()


def plant(source: Path, destination: Path) -> None:
    """Writes an artifact that adds 1 to the last class of a row whose first value is `MAGIC`, twice to be sure."""
    model = onnx.load(source)
    graph = model.graph
    (node,) = [node for node in graph.node if "p" in node.output]
    node.output[0] = "sound"
    constants = {"zero": np.array([0]), "magic": np.float32(MAGIC), "shift": np.array([[0, 0, 9]], np.float32)}
    graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    graph.node.extend(
        [
            onnx.helper.make_node("Gather", ["x", "zero"], ["first"], axis=1),
            onnx.helper.make_node("Equal", ["first", "magic"], ["is_magic"]),
            onnx.helper.make_node("Cast", ["is_magic"], ["flag"], to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("Mul", ["flag", "shift"], ["moved"]),
            onnx.helper.make_node("Add", ["sound", "moved"], ["p"]),
        ]
    )
    onnx.save(model, destination)


def draw(rows: int, magic: int | None = None) -> np.ndarray:
    """Returns rows for the classifier, one of them magic."""
    x = np.random.default_rng(0).standard_normal((rows, 8)).astype(np.float32)
    if magic is not None:
        x[magic, 0] = MAGIC
    return x
