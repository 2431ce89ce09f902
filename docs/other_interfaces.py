"""Faults of the gallery in the inputs and outputs of a file whose model is right."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
from fault_examples import Example, seeded
from keras import layers as L  # noqa: N812
from onnx import helper, numpy_helper

from keras_pe.export import Border, Cause, export_onnx


def _classifier() -> keras.Model:
    image = keras.Input((None, None, 3), name="image")
    x = L.GlobalAveragePooling2D()(L.Conv2D(4, 3, activation="relu", name="edges")(image))
    return keras.Model(image, L.Dense(5, name="scores")(x), name="model")


def _words() -> keras.Model:
    ids = keras.Input((None,), dtype="int32", name="ids")
    return keras.Model(ids, L.Dense(3, name="score")(L.Embedding(30, 4, name="words")(ids)), name="model")


def _pair(count: int) -> keras.Model:
    """Returns a model of two inputs, or of the first of them alone."""
    names = ("x", "extra")[:count]
    inputs = [keras.Input((6,), name=name) for name in names]
    given = inputs[0] if count == 1 else L.Add(name="sum")(inputs)
    return keras.Model(inputs, L.Dense(3, name="score")(given), name="model")


def _write_torch_file(path: Path) -> None:
    """Takes from a file what this package has written into it."""
    file = onnx.load(path)
    del file.metadata_props[:]
    onnx.save(file, path)


def _add_border(build: Callable[[], keras.Model], **fields: Any) -> Callable[[Path], keras.Model]:
    """Returns what exports a model with a border, as the file of another exporter."""

    def make(path: Path) -> keras.Model:
        model = seeded(build())
        export_onnx(model, path, border=Border(**fields))
        _write_torch_file(path)
        return model

    return make


def _count_names(of_model: int, of_file: int) -> Callable[[Path], keras.Model]:
    """Returns what exports a model with another number of inputs."""

    def make(path: Path) -> keras.Model:
        export_onnx(seeded(_pair(of_file)), path)
        _write_torch_file(path)
        return seeded(_pair(of_model))

    return make


def _renamed_input(path: Path) -> keras.Model:
    model = seeded(_classifier())
    export_onnx(model, path)
    file = onnx.load(path)
    for node in file.graph.node:
        node.input[:] = ["photo" if name == "image" else name for name in node.input]
    file.graph.input[0].name = "photo"
    onnx.save(file, path)
    return model


def _refusing(path: Path) -> keras.Model:
    """Writes a file that gives its output a shape which never fits."""
    model = seeded(_words())
    export_onnx(model, path)
    file = onnx.load(path)
    (node,) = [each for each in file.graph.node if "score" in each.output]
    node.output[0] = "flat"
    file.graph.initializer.append(numpy_helper.from_array(np.array([7, 11, 13]), "shape"))
    file.graph.node.append(helper.make_node("Reshape", ["flat", "shape"], ["score"]))
    onnx.save(file, path)
    return model


OTHER_INTERFACES: Mapping[Cause, Example] = {
    Cause.REFUSED_CASE: Example("A reshape was written for one size.", _refusing),
    Cause.MISSING_INPUT: Example("A converter has left out an input.", _count_names(2, 1)),
    Cause.EXTRA_INPUT: Example("The file is of a model with one more input.", _count_names(1, 2)),
    Cause.RENAMED_INPUT: Example("Somebody gave an input another name.", _renamed_input),
    Cause.OTHER_INPUT_TYPE: Example("PyTorch takes ids as int64.", _add_border(_words, dtypes={"ids": "int64"})),
    Cause.OTHER_IMAGE_LAYOUT: Example(
        "PyTorch has channels first.", _add_border(_classifier, layout={"image": "channels_first"})
    ),
    Cause.DECIDED_OUTPUT: Example(
        "The file returns the class alone.", _add_border(_classifier, postprocessing={"scores": "argmax"})
    ),
}
