"""Small models with one thing changed, and the diagnosis of the changed model's file against the original."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from fault_examples import seeded
from keras import layers as L  # noqa: N812

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.progress import Budget
from keras_pe.export.results import Finding, RuntimeResult
from keras_pe.export.runtimes.worker import Worker
from tests.export.parity.diagnosis.planted import AMPLE, one_layer

IMAGE, SEQUENCE = (12, 12, 4), (None, 8)


@dataclass(frozen=True)
class Change:
    """A change: a model with and without the change, and the expected diagnosis.

    Attributes:
        name: The changed thing.
        build: Makes the model.
        cause: The cause that is to be named.
        layer: The layer that is to be named.
        description: A part of the evidence.
        after: Changes the weights of the changed model.
        by_keras: Whether Keras' own exporter writes the file: nothing in it has a layer's name.
    """

    name: str
    build: Callable[[bool], keras.Model]
    cause: str
    layer: str
    description: str = ""
    after: Callable[[keras.Model], None] = lambda model: None
    by_keras: bool = False


def functional(shape: tuple[int | None, ...], layers: Callable[[Any, bool], Any]) -> Callable[[bool], keras.Model]:
    """Returns what makes a model of some layers and a head after them."""

    def build(is_changed: bool) -> keras.Model:
        x = keras.Input(shape, name="x")
        return keras.Model(x, L.Dense(3, name="head")(layers(x, is_changed)), name="net")

    return build


def one(shape: tuple[int | None, ...], layer: Callable[[bool], Any]) -> Callable[[bool], keras.Model]:
    """Returns what makes a model of one layer and a head."""
    return functional(shape, lambda x, is_changed: layer(is_changed)(x))


def pool_layer(layer: Callable[[bool], Any]) -> Callable[[bool], keras.Model]:
    """Returns what makes a model of one layer over an image, a mean over the image and a head."""
    return functional(IMAGE, lambda x, is_changed: L.GlobalAveragePooling2D(name="mean")(layer(is_changed)(x)))


def assign(path: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[keras.Model], None]:
    """Returns what gives a weight other values."""

    def assign_variable(model: keras.Model) -> None:
        (variable,) = [v for v in model.variables if v.path.endswith(path)]
        variable.assign(change(np.asarray(variable)))

    return assign_variable


def _build_seeded(change: Change, is_changed: bool) -> keras.Model:
    keras.utils.clear_session(free_memory=False)  # restarts the numbers of operations without a name
    return seeded(change.build(is_changed))


def write(change: Change, folder: Path) -> tuple[keras.Model, Path]:
    """Returns the model and the file of the changed model."""
    model, changed = (_build_seeded(change, is_changed) for is_changed in (False, True))
    change.after(changed)
    path = folder / "changed.onnx"
    if change.by_keras:
        size = [1, *(6 if dim is None else dim for dim in changed.input_shape[1:])]
        changed(np.zeros(size, np.float32))  # it must have been called
        changed.export(path, format="onnx", verbose=False)
    else:
        export_onnx(changed, path)
    return model, path


def say(model: keras.Model, path: Path, worker: Worker) -> RuntimeResult:
    """Returns what the check says of the changed model's file."""
    reference = KerasReference(model)
    expectations = reference.answer(sweep(reference.inputs, reference.roles, seed=0))
    run = run_cases(worker, worker.spec, path, reference, expectations)
    return run.result if run.result.passed else diagnose(run, worker, reference, reference.roles, Budget(AMPLE))


def file_findings(right: L.Layer, wrong: L.Layer, shape: tuple[int, ...], folder: Path) -> list[Finding]:
    """Returns the findings for a model of one layer whose file has another layer with equal weights."""
    path = export_onnx(seeded(one_layer(wrong, shape)), folder / "model.onnx").path
    model = seeded(one_layer(right, shape))
    (result,) = check_parity(model, path, runtimes=["onnxruntime[disabled]"]).results
    return list(result.findings)
