"""Writes docs/failures.md: what the terminal shows of three failures, made by running them.

Usage: python docs/failures.py
"""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx

from keras_pe import SinusoidalPositionEncoding
from keras_pe.export import check_parity, export_onnx

ROOT = Path(__file__).parent.parent

_INTRODUCTION = """\
<!-- Written by docs/failures.py, which runs what it shows. -->
# What a failure looks like

Three files that are not what their model is, and what `keras-pe check model.keras model.onnx` says of each: first the
verdict, then the cause and the layer, then the proof, then the tables. The last digits of small differences are those
of one machine, and its seconds are left out.
"""


def model(start_index: int = 0, is_causal: bool = True) -> keras.Model:
    """Returns a small decoder, with the same weights at every call."""
    keras.utils.set_random_seed(4)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(50, 16, name="embed")(tokens)
    x = SinusoidalPositionEncoding(start_index=start_index, name="encode")(x)
    x = keras.layers.MultiHeadAttention(2, 8, name="attend")(x, x, use_causal_mask=is_causal)
    return keras.Model(tokens, keras.layers.Dense(5, name="scores")(x), name="decoder")


def another_start(path: Path) -> None:
    """Exports the model with positions that start at 1."""
    export_onnx(model(start_index=1), path)


def without_the_mask(path: Path) -> None:
    """Exports the model without the mask that keeps a position from those after it."""
    export_onnx(model(is_causal=False), path)


def an_integer_kernel(path: Path) -> None:
    """Exports the model and rounds a kernel to 255 steps, as a conversion to int8 does."""
    export_onnx(model(), path)
    file = onnx.load(path)
    (kernel,) = [tensor for tensor in file.graph.initializer if tensor.name == "scores/kernel"]
    values = onnx.numpy_helper.to_array(kernel)
    scale = np.abs(values).max() / 127
    kernel.CopyFrom(onnx.numpy_helper.from_array((np.rint(values / scale) * scale).astype("float32"), kernel.name))
    onnx.save(file, path)


FAILURES: dict[str, Callable[[Path], Any]] = {
    "Positions that start at 1": another_start,
    "A causal mask that was left out": without_the_mask,
    "A kernel in int8": an_integer_kernel,
}


def page() -> str:
    """Returns the page."""
    sections = [f"\n## {title}\n\n```text\n{_shown(make)}\n```\n" for title, make in FAILURES.items()]
    return _INTRODUCTION + "".join(sections)


def _shown(make: Callable[[Path], Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        make(path)
        report = check_parity(model(), path, runtimes=["keras[graph]", "onnxruntime"])
        return re.sub(r" in [\d.]+ s\b", "", str(report), count=1)


if __name__ == "__main__":
    (ROOT / "docs" / "failures.md").write_text(page())
