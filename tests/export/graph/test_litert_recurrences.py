"""Recurrent layers of known sizes are fused operators, or for a GPU or NPU copies of the step."""

from collections import Counter
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers

from keras_pe.export import check_parity, export_litert
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.litert_operators import read_operators
from tests.samples import sample_cases

FUSED = "UNIDIRECTIONAL_SEQUENCE_LSTM"


def sequence(*stack: Any, steps: int = 7, channels: int = 5) -> keras.Model:
    x = y = keras.Input((steps, channels), name="x")
    for layer in stack:
        y = layer(y)
    return keras.Model(x, y)


def count_operators(artifact: Artifact) -> Counter[str]:
    return Counter(operator.kind for operator in read_operators(artifact.path.read_bytes()))


LAYERS = {
    "forwards": (lambda: layers.LSTM(4), 1),
    "backwards": (lambda: layers.LSTM(4, go_backwards=True, return_sequences=True), 1),
    "without bias": (lambda: layers.LSTM(4, use_bias=False, return_sequences=True), 1),
    "both ways": (lambda: layers.Bidirectional(layers.LSTM(4, return_sequences=True)), 2),
    "both ways, summed": (lambda: layers.Bidirectional(layers.LSTM(4), merge_mode="sum"), 2),
    "another activation": (lambda: layers.LSTM(4, activation="relu"), 0),
    "with its states": (lambda: layers.LSTM(4, return_state=True), 0),
    "gated": (lambda: layers.GRU(4, return_sequences=True), 0),
    "simple": (lambda: layers.SimpleRNN(4), 0),
}


@pytest.mark.parametrize("name", sample_cases(list(LAYERS), ("forwards", "both ways", "gated")))
def test_a_recurrent_layer_of_known_sizes_is_fused_and_for_a_gpu_unrolled(name: str, tmp_path: Path) -> None:
    make, count = LAYERS[name]
    model = sequence(make())
    micro = export_litert(model, tmp_path / "micro.tflite", target="micro")
    assert count_operators(micro)[FUSED] == count
    assert count_operators(micro)["WHILE"] == (not count)
    gpu = export_litert(model, tmp_path / "gpu.tflite", target="gpu")
    assert not count_operators(gpu).keys() & {FUSED, "WHILE"}
    fixed = export_litert(model, tmp_path / "fixed.tflite", sizes={"batch": [3]})
    assert count_operators(fixed)[FUSED] == count
    for artifact in (micro, gpu, fixed):
        assert check_parity(model, artifact, runtimes="litert").passed


@pytest.mark.slow
def test_four_lstm_layers_are_four_operators(tmp_path: Path) -> None:
    stack = [layers.LSTM(128, return_sequences=True) for _ in range(4)]
    artifact = export_litert(sequence(*stack, steps=100, channels=128), tmp_path / "model.tflite", target="micro")
    assert count_operators(artifact) == {FUSED: 4, "ADD": 8}
