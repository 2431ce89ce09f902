"""A small model, and the exported file of a model with a slight difference, for the gallery."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers as L  # noqa: N812

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.records import ParityReport

Build = Callable[[bool], keras.Model]  # True asks for the model that was written anew, with the mistake
Layers = Callable[[Any, bool], Any]  # the same of what comes between an input and the last layer


def _check(model: keras.Model, path: Path) -> ParityReport:
    return check_parity(model, path, runtimes="onnxruntime[all]")


@dataclass(frozen=True)
class Example:
    """A fault, and a file that shows it.

    Attributes:
        story: How it happens.
        make: Writes the file to a path, and returns the model that it should be.
        check: Checks a model and a file.
    """

    story: str
    make: Callable[[Path], keras.Model]
    check: Callable[[keras.Model, Path], ParityReport] = _check


def seeded(model: keras.Model) -> keras.Model:
    """Gives each weight values of its own, the same wherever it has the same name."""
    for variable in model.variables:
        rng = np.random.default_rng(zlib.crc32(variable.path.encode()))
        is_positive = "variance" in variable.path or "gamma" in variable.path
        variable.assign(rng.uniform(*((0.5, 1.5) if is_positive else (-0.7, 0.7)), variable.shape))
    return model


def written_anew(build: Build, **options: Any) -> Callable[[Path], keras.Model]:
    """Returns what exports a model with a mistake and the same weights."""

    def make(path: Path) -> keras.Model:
        export_onnx(seeded(build(True)), path, **options)
        return seeded(build(False))

    return make


def functional(layers: Layers, *shape: int | None) -> Build:
    """Returns what makes a model of one input, some layers and a head."""

    def build(is_wrong: bool) -> keras.Model:
        x = keras.Input(shape, name="x")
        return keras.Model(x, L.Dense(3, name="score")(layers(x, is_wrong)), name="model")

    return build


def mistaken(layers: Layers, *shape: int | None) -> Callable[[Path], keras.Model]:
    """Returns what exports a model of one input whose layers have a mistake."""
    return written_anew(functional(layers, *shape))


def pad_model(is_wrong: bool) -> keras.Model:
    """Returns a model of sequences with padding; the wrong one knows of none."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = L.Embedding(50, 8, mask_zero=not is_wrong, name="words")(tokens)
    return keras.Model(
        tokens, L.Dense(3, name="score")(L.MultiHeadAttention(2, 4, name="attention")(x, x)), name="model"
    )


def mask_model(change: Callable[[Any], Any]) -> Build:
    """Returns what makes attention with a mask, in the wrong model with what becomes of the mask."""

    def build(is_wrong: bool) -> keras.Model:
        x, mask = keras.Input((5, 8), name="x"), keras.Input((5, 5), dtype="bool", name="mask")
        seen = change(mask) if is_wrong else mask
        y = L.MultiHeadAttention(2, 4, name="attention")(x, x, attention_mask=seen)
        return keras.Model([x, mask], L.Dense(3, name="score")(y), name="model")

    return build
