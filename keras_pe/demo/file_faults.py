"""Faults that the demonstration plants in an exported file, each of a common kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import onnx

from keras_pe.demo.forecaster import build_forecaster
from keras_pe.export import Cause, export_onnx

Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Fault:
    """A way to break a file.

    Attributes:
        story: How it happens.
        cause: The cause that a check reports.
        make: Writes the broken file of a forecaster to a path.
    """

    story: str
    cause: Cause
    make: Callable[[keras.Model, Path], Any]


def _twin(**changes: Any) -> Callable[[keras.Model, Path], Any]:
    """Returns what exports a model that was written anew with a mistake, and given the weights."""

    def make(model: keras.Model, path: Path) -> None:
        blocks = sum(layer.name.startswith("attention") for layer in model.layers)
        twin = build_forecaster(blocks, **changes)
        twin.set_weights(model.get_weights())
        export_onnx(twin, path)

    return make


def _edit_weight(name: str, change: Callable[[Array], Array]) -> Callable[[keras.Model, Path], Any]:
    """Returns what exports the model and changes one weight of the file."""

    def make(model: keras.Model, path: Path) -> None:
        export_onnx(model, path)
        file = onnx.load(path)
        (weight,) = [tensor for tensor in file.graph.initializer if tensor.name == name]
        values = change(onnx.numpy_helper.to_array(weight)).astype("float32")
        weight.CopyFrom(onnx.numpy_helper.from_array(values, name))
        onnx.save(file, path)

    return make


def _rounded_to_int8(values: Array) -> Array:
    scale = np.abs(values).max() / 127
    return np.asarray(np.rint(values / scale) * scale)


def _cut(model: keras.Model, path: Path) -> None:
    """Exports the model and loses the second half of the file, as a download that stopped."""
    export_onnx(model, path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


FAULTS: Mapping[str, Fault] = {
    "layout": Fault(
        "The model was written anew, with sines and cosines that alternate.",
        Cause.WRONG_LAYOUT,
        _twin(layout="interleaved"),
    ),
    "start": Fault(
        "The model was written anew, with positions that start at 1.",
        Cause.START_INDEX_OFF,
        _twin(start_index=1),
    ),
    "convention": Fault(
        "The model was written anew, with the timescales of the paper.",
        Cause.OTHER_CONVENTION,
        _twin(endpoint=False),
    ),
    "causal": Fault(
        "The model was written anew, without the mask that hides later months.",
        Cause.DROPPED_CAUSAL_MASK,
        _twin(is_causal=False),
    ),
    "activation": Fault(
        "The model was written anew, with relu instead of gelu.",
        Cause.OTHER_ACTIVATION,
        _twin(activation="relu"),
    ),
    "epsilon": Fault(
        "The model was written anew, with another framework's epsilon in its normalizations.",
        Cause.OTHER_EPSILON,
        _twin(epsilon=1e-1),
    ),
    "int8": Fault(
        "A kernel was rounded to 255 steps, as a conversion to int8 does.",
        Cause.QUANTIZED_INT8,
        _edit_weight("widen_0/kernel", _rounded_to_int8),
    ),
    "half": Fault(
        "A kernel was stored in half precision on the way.",
        Cause.ROUNDED_VALUES,
        _edit_weight("widen_0/kernel", lambda values: values.astype("float16")),
    ),
    "scale": Fault(
        "A kernel was scaled twice.",
        Cause.SCALED_VALUES,
        _edit_weight("growth/kernel", lambda values: 2 * values),
    ),
    "sign": Fault(
        "A kernel has lost its sign.",
        Cause.FLIPPED_SIGN,
        _edit_weight("growth/kernel", lambda values: -values),
    ),
    "rows": Fault(
        "A kernel has moved by a row.",
        Cause.SHIFTED_ROWS,
        _edit_weight("narrow_0/kernel", lambda values: np.roll(values, 1, axis=0)),
    ),
    "missing": Fault(
        "A kernel is zero.",
        Cause.MISSING_VALUES,
        _edit_weight("narrow_0/kernel", np.zeros_like),
    ),
    "nan": Fault(
        "A kernel has NaN values.",
        Cause.NOT_A_NUMBER,
        _edit_weight("growth/kernel", lambda values: values * np.nan),
    ),
    "file": Fault(
        "The file is incomplete, after a stopped download.",
        Cause.NOT_LOADED,
        _cut,
    ),
}
