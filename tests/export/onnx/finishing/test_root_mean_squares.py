"""RMS normalization by separate operations exports as one operator of ONNX Runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import onnx
import onnxruntime
import pytest

from keras_pe.export import export_onnx

ops = keras.ops


class Normalized(keras.layers.Layer):
    """keras-hub's normalization of Gemma, with the mean of something."""

    def __init__(self, mean: Callable[[Any], Any], weighted: bool = True) -> None:
        super().__init__()
        self.mean, self.weighted = mean, weighted

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=shape[-1:], initializer="random_normal", name="scale")

    def call(self, x: Any) -> Any:
        normal = x * ops.rsqrt(self.mean(x) + 1e-6)
        return normal * (1 + self.scale) if self.weighted else ops.tanh(normal)


def _operators(model: keras.Model, folder: Path) -> list[str]:
    """Returns the operators that ONNX Runtime runs; the export has compared the numbers."""
    artifact = export_onnx(model, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # silences the warning that the file suits this machine alone
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(artifact.path, options)
    return [node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node]


def _of(mean: Callable[[Any], Any], **options: Any) -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((None, 8), name="x"), Normalized(mean, **options)])


def test_a_root_mean_square_is_one_operator(tmp_path: Path) -> None:
    model = _of(lambda x: ops.mean(ops.square(x), -1, keepdims=True))
    assert _operators(model, tmp_path) == ["SimplifiedLayerNormalization"]


@pytest.mark.parametrize("model", [
    lambda: _of(lambda x: ops.mean(ops.square(x), -2, keepdims=True)),
    lambda: _of(lambda x: ops.mean(ops.square(x), -1, keepdims=True), weighted=False),
    lambda: _of(lambda x: ops.mean(x * ops.tanh(x), -1, keepdims=True) + 1),
], ids=["another axis", "no weight", "no square"])  # fmt: skip
def test_other_divisions_stay(model: Callable[[], keras.Model], tmp_path: Path) -> None:
    assert "ReduceMean" in _operators(model(), tmp_path)
