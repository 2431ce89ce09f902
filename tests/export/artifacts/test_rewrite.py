"""An export names the lines of a user's code whose operations one operator replaces or could replace."""

from pathlib import Path
from typing import Any

import keras
import pytest
from keras import ops

from keras_pe.export import export_litert, export_onnx, read_artifact
from keras_pe.export.records import Artifact


class Blend(keras.layers.Layer):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.memory = keras.layers.LSTM(4, activation="elu", return_sequences=True, name="memory")

    def build(self, shape: Any) -> None:
        self.memory.build(shape)
        super().build(shape)

    def call(self, x: Any) -> Any:
        scores = ops.softmax(ops.matmul(x, ops.transpose(x, (0, 2, 1))))
        x = ops.matmul(scores, x)  # Attention
        x = limit(x)
        return self.memory(x)  # LSTM


def limit(x: Any) -> Any:
    return ops.minimum(
        ops.maximum(x, -1.0),
        1.0,
    )


class Choose(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        order = ops.argsort(x, axis=1)
        return ops.take_along_axis(x, order, axis=1)  # GATHER


def lines_of(artifact: Artifact) -> dict[str, str]:
    """Returns the lines of this file by operator."""
    lines = Path(__file__).read_text().splitlines()
    placed = [each for each in artifact.rewrites if each.file == __file__ and each.line is not None]
    return {each.operator: lines[each.line - 1].strip() for each in placed if each.line is not None}


@pytest.mark.slow
def test_an_artifact_names_the_lines_of_fused_and_unfused_operations(tmp_path: Path) -> None:
    inputs = keras.Input((None, 4), name="x")
    x = keras.layers.MultiHeadAttention(2, 2, name="library")(inputs, inputs)
    artifact = export_onnx(keras.Model(inputs, Blend(name="blend")(x)), tmp_path / "m.onnx")
    assert {(each.layer, each.operator): bool(each.reason) for each in artifact.rewrites if each.file} == {
        ("blend", "Attention"): True,
        ("blend", "Clip"): False,
        ("blend/memory", "LSTM"): True,
    }
    found = lines_of(artifact)
    assert found.pop("Clip") == "return ops.minimum("
    assert all(line.endswith(f"# {operator}") for operator, line in found.items())
    assert {each.operator for each in artifact.rewrites if each.layer == "library" and not each.file} >= {"Attention"}
    assert read_artifact(artifact.path).rewrites == ()
    assert Path(__file__).name.encode() not in artifact.path.read_bytes()
    fused = export_onnx(keras.Model(inputs, Blend(name="blend")(inputs)), tmp_path / "m.onnx", opset_version=23)
    assert [each.reason for each in fused.rewrites if each.operator == "Attention"] == [""]


@pytest.mark.slow
def test_a_file_for_a_device_names_the_lines_of_rewritten_operators(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4, 4)), Choose(name="own")])
    lines = lines_of(export_litert(model, tmp_path / "m.tflite", target="gpu"))
    assert lines["GATHER"].endswith("# GATHER")
