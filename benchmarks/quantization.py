"""Measures quantized files of small trained models beside their float32 file: bytes, time, and changed decisions.

scikit-learn has the digits. The texts are the docstrings of installed packages, and Python's reference.
"""

import atexit
import importlib
import inspect
import pkgutil
import pydoc_data.topics
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_pe import SinusoidalPositionEncoding
from keras_pe.demo.forecaster import build_forecaster, train
from keras_pe.demo.series import load_months, make_windows

Array = npt.NDArray[Any]
Sample = tuple[keras.Model, Mapping[str, Array]]

METHODS = {
    "dynamic int8": "dynamic",
    "static int8": "static",
    "8-bit weights": "int8-weights",
    "4-bit weights": "int4-weights",
    "float16": "float16",
    "Keras' int8": "keras-int8",
    "Keras' int4": "keras-int4",
}
# The quantizer as it is, in one file; and the search for the layers to leave in float.
PLANS: Mapping[str, Mapping[str, Any]] = {"": {"trials": 1}, ", our plan": {}}
FORMATS = ("ONNX", "LiteRT")
_COPIES = 4  # each digit and each sentence has as many
_NOISE = 0.05  # the standard deviation of the noise in a digit
_UNKNOWN = 0.1  # the share of words of a sentence that become the unknown word
_LENGTH, _WORDS = 24, 2000
_CHANNELS = 128
_PACKAGES = ("keras", "numpy", "onnx")
_CONTEXT, _STARTS, _PROOFS = 48, 20_000, 8_000  # the characters of a window, its windows, and those that are quantized


def forecaster() -> Sample:
    """Returns the model of the demonstration, which forecasts carbon dioxide."""
    _, values = load_months()
    windows = make_windows(values)
    model = build_forecaster()
    train(model, windows, lambda done, total, loss: None)
    return model, {"changes": windows.changes}


def text_classifier() -> Sample:
    """Returns a Transformer that finds the package of a sentence from a docstring."""
    words, labels = _sentences()
    inputs = keras.Input((_LENGTH,), dtype="int32", name="words")
    x = SinusoidalPositionEncoding(name="positions")(
        keras.layers.Embedding(_WORDS, _CHANNELS, name="embedding")(inputs)
    )
    for block in range(2):
        x = keras.layers.LayerNormalization(name=f"norm_{block}a")(
            x + keras.layers.MultiHeadAttention(4, _CHANNELS // 4, name=f"attention_{block}")(x, x)
        )
        hidden = keras.layers.Dense(4 * _CHANNELS, activation="gelu", name=f"widen_{block}")(x)
        x = keras.layers.LayerNormalization(name=f"norm_{block}b")(
            x + keras.layers.Dense(_CHANNELS, name=f"narrow_{block}")(hidden)
        )
    x = keras.layers.GlobalAveragePooling1D(name="mean")(x)
    model = keras.Model(inputs, keras.layers.Dense(len(_PACKAGES), activation="softmax", name="package")(x))
    _fit(model, words, labels, epochs=6, rate=1e-3)
    return model, {"words": words}


def mobile_net() -> Sample:
    """Returns MobileNetV3 for digits of 32 x 32 pixels."""
    images, digits = _digits()
    images = images.repeat(4, axis=1).repeat(4, axis=2)
    model = keras.applications.MobileNetV3Small(
        (32, 32, 1), 0.5, weights=None, classes=10, include_preprocessing=False, dropout_rate=0.0
    )
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.9  # the default needs thousands of batches
    _fit(model, images, digits, epochs=6)
    return model, {model.inputs[0].name: images}


def gru() -> Sample:
    """Returns two GRU layers that read a digit row by row."""
    images, digits = _digits()
    inputs = keras.Input((8, 8), name="rows")
    x = keras.layers.GRU(_CHANNELS, return_sequences=True, name="first")(inputs)
    x = keras.layers.Dense(64, activation="relu", name="hidden")(keras.layers.GRU(_CHANNELS, name="second")(x))
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax", name="digit")(x))
    _fit(model, images[..., 0], digits, epochs=10)
    return model, {"rows": images[..., 0]}


def decoder() -> Sample:
    """Returns a GPT-2 of keras-hub that finds the next character of Python's reference, without a cache."""
    import keras_hub

    characters, text = np.unique(list("".join(pydoc_data.topics.topics.values())), return_inverse=True)
    starts = np.random.default_rng(0).integers(0, len(text) - _CONTEXT, _STARTS)
    windows = text[starts[:, np.newaxis] + np.arange(_CONTEXT + 1)].astype("int32")
    inputs = {"token_ids": windows[:, :-1], "padding_mask": np.ones_like(windows[:, :-1])}
    backbone = keras_hub.models.GPT2Backbone(len(characters), 3, 4, _CHANNELS, 4 * _CHANNELS, 0.0, _CONTEXT)
    writer = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    writer.compile(keras.optimizers.Adam(2e-3), loss)
    writer.fit(inputs, windows[:, 1:], 64, epochs=4, verbose=0)
    following = keras.layers.Softmax(name="following")(writer.outputs[0][:, -1])
    rows = {name: array[:_PROOFS] for name, array in inputs.items()}
    return keras.Model(writer.inputs, following, name="decoder"), rows


MODELS: Mapping[str, tuple[Callable[[], Sample], Mapping[str, Any]]] = {
    "forecaster": (forecaster, {"error": 0.02}),
    "text classifier": (text_classifier, {"decisions": 0.999}),
    "MobileNetV3": (mobile_net, {"decisions": 0.999}),
    "GRU": (gru, {"decisions": 0.999}),
    "decoder": (decoder, {"decisions": 0.999}),
}


def _fit(model: keras.Model, inputs: Array, labels: Array, epochs: int, rate: float = 2e-3) -> None:
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
    model.fit(inputs, labels, 64, epochs, verbose=0)


def _digits() -> tuple[Array, Array]:
    """Returns noisy copies of scikit-learn's digits, `(rows, 8, 8, 1)`, in a drawn order, and their classes."""
    from sklearn.datasets import load_digits

    found = load_digits()
    draw = np.random.default_rng(0)
    images = np.tile(found.images[..., np.newaxis] / 16, (_COPIES, 1, 1, 1))
    order = draw.permutation(len(images))
    noisy = images + draw.normal(0, _NOISE, images.shape)
    return noisy[order].astype("float32"), np.tile(found.target, _COPIES)[order]


def _sentences() -> tuple[Array, Array]:
    """Returns copies of sentences with a few unknown words, `(rows, _LENGTH)`, and the number of each package."""
    found: dict[str, int] = {}
    for number, name in enumerate(_PACKAGES):
        package = importlib.import_module(name)
        names = [name, *(each.name for each in pkgutil.iter_modules(package.__path__, f"{name}."))]
        for module in (importlib.import_module(each) for each in names if _is_public(each)):
            for member in vars(module).values():
                text = inspect.getdoc(member) or "" if callable(member) else ""
                found |= dict.fromkeys(re.findall(r"[A-Z][^.\n]{30,150}(?=\.)", text), number)
    vectorize = keras.layers.TextVectorization(_WORDS, output_sequence_length=_LENGTH)
    vectorize.adapt(list(found))
    words = np.tile(np.array(vectorize(list(found))), (_COPIES, 1)).astype("int32")
    draw = np.random.default_rng(0)
    words[(draw.random(words.shape) < _UNKNOWN) & (words > 0)] = 1
    order = draw.permutation(len(words))
    return words[order], np.tile(list(found.values()), _COPIES)[order]


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") or part in ("conftest", "f2py", "distutils") for part in name.split("."))


def rows() -> dict[str, Callable[[Path], list[dict[str, Any]]]]:
    """Returns a function for each model, format and method, which returns the figures of the files."""
    return {
        f"{name} / {format}, {label}": partial(_measure, name, format, label)
        for name in MODELS
        for format in FORMATS
        for label in METHODS
    }


def _measure(name: str, format: str, label: str, folder: Path) -> list[dict[str, Any]]:
    """Returns the figures of the float32 file and of the files of a method; none if the method takes no layer."""
    from keras_pe.export import quantize

    model, inputs, artifact = _float_file(name, format)
    goal = MODELS[name][1]
    found: list[dict[str, Any]] = []
    for plan, options in PLANS.items():
        given = {**goal, **options, "method": METHODS[label], "checkpoint_dir": artifact.parent / "kept"}
        try:
            report = quantize(model, artifact, folder / f"small{artifact.suffix}", inputs, **given)
        except ValueError:  # the format has no such quantizer, or it takes no layer
            break
        best, ratio, decides = report.chosen, report.quantized_seconds / report.float_seconds, "decisions" in goal
        if not found:
            found.append(_row(f"{format}, float32", report.float_bytes, 1.0, report.float_score, None, True, decides))
        found.append(_row(f"{format}, {label}{plan}", best.nbytes, ratio, best.held_out, best, report.passed, decides))
        if report.passed or not report.layers:  # the search would write this file
            break
    return found


@cache
def _sample(name: str) -> Sample:
    keras.utils.set_random_seed(0)
    return MODELS[name][0]()


@cache
def _float_file(name: str, format: str) -> tuple[keras.Model, Mapping[str, Array], Path]:
    """Returns a trained model, its rows and its float32 file, in a folder that lasts as long as the process."""
    from keras_pe.export import export_litert, export_onnx

    model, inputs = _sample(name)
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    if format == "ONNX":
        return model, inputs, export_onnx(model, folder / "float.onnx").path
    return model, inputs, export_litert(model, folder / "float.tflite").path


def _row(name: str, nbytes: int, ratio: float, score: Any, trial: Any, passed: bool, decides: bool) -> dict[str, Any]:
    return {
        "file": name,
        "bytes": nbytes,
        "time": round(ratio, 3),
        "rows": score.rows,
        "changed": score.changed,
        "bound": score.bound,
        "error": score.error,
        "decides": decides,
        "layers in float": len(trial.layers_in_float) if trial else None,
        "passed": passed,
    }
