"""Recurrent layers of known sizes are fused operators, or for a GPU or NPU copies of the step."""

from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from keras_pe.export import check_parity, export_litert
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.artifacts.rewrite import UNFUSED_KEY
from keras_pe.export.graph.litert_recurrences import move_back, move_kept_first
from tests.export.onnx.exported import chain_layers
from tests.samples import sample_cases

FUSED = "UNIDIRECTIONAL_SEQUENCE_LSTM"


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


@pytest.mark.parametrize("name", sample_cases(list(LAYERS), ("both ways", "gated")))
def test_a_recurrent_layer_of_known_sizes_is_fused_and_for_a_gpu_unrolled(name: str, tmp_path: Path) -> None:
    make, count = LAYERS[name]
    model = chain_layers((7, 5), make())
    micro = export_litert(model, tmp_path / "micro.tflite", target="micro")
    assert count_operators(micro)[FUSED] == count
    assert count_operators(micro)["WHILE"] == (not count)
    gpu = export_litert(model, tmp_path / "gpu.tflite", target="gpu")
    assert not count_operators(gpu).keys() & {FUSED, "WHILE"}
    fixed = export_litert(model, tmp_path / "fixed.tflite", sizes={"batch": [3]})
    assert count_operators(fixed)[FUSED] == count
    for artifact in (micro, gpu, fixed):
        assert check_parity(model, artifact, runtimes="litert").passed


LOOPS = {
    "free sizes": (lambda: layers.LSTM(4), {}, "`sizes`"),
    "another activation": (lambda: layers.LSTM(4, activation="relu"), {"batch": [1]}, "tanh and sigmoid"),
    "with its states": (lambda: layers.LSTM(4, return_state=True), {"batch": [1]}, "`return_state`"),
    "gated by ReLU": (lambda: layers.GRU(4, activation="relu"), {"batch": [1]}, "tanh and sigmoid"),
    "a cell": (lambda: layers.RNN(layers.LSTMCell(4)), {"batch": [1]}, "keras.layers.LSTM"),
    "copied": (lambda: layers.LSTM(4, unroll=True), {"batch": [1]}, "`unroll`"),
    "gated": (lambda: layers.GRU(4), {"batch": [1]}, "stays a loop"),
    "fused": (lambda: layers.LSTM(4), {"batch": [1]}, ""),
}


@pytest.mark.parametrize("name", sample_cases(list(LOOPS), ("free sizes", "fused")))
def test_a_recurrent_layer_that_stays_a_loop_has_the_reason(name: str, tmp_path: Path) -> None:
    make, sizes, word = LOOPS[name]
    model = chain_layers((7, 5), make())
    artifact = export_litert(model, tmp_path / "model.tflite", sizes=sizes)
    found = [each for each in artifact.rewrites if each.layer == model.layers[-1].name]
    assert len(found) == bool(word)
    for each in found:
        assert each.operator == (FUSED if type(model.layers[-1]) is not layers.GRU else "GRU")
        assert word in each.reason
        assert each.reason in artifact.metadata[UNFUSED_KEY]


@pytest.mark.parametrize("is_zero", [False, True])
def test_steps_without_skipped_ones_return_to_their_places(is_zero: bool) -> None:
    rng = np.random.default_rng(0)
    rows, kept = rng.normal(size=(9, 6, 2)).astype("float32"), rng.random((9, 6)) > 0.5
    kept[0], kept[1] = False, True
    found = move_kept_first(rows, kept.astype("float32")).numpy()
    placed = move_back(found, kept.astype("float32"), is_zero=is_zero).numpy()
    for row, mask, own, back in zip(rows, kept, found, placed, strict=True):
        np.testing.assert_array_equal(own[: mask.sum()], row[mask])
        last = np.zeros(2)
        for step, is_kept in enumerate(mask):
            last = row[step] if is_kept else np.zeros(2) if is_zero else last
            np.testing.assert_array_equal(back[step], last)


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, "micro"])
def test_a_masked_lstm_is_fused_and_equals_keras_for_every_mask(target: Any, tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    tokens = keras.Input((7,), name="tokens", dtype="int32")
    x = layers.Embedding(9, 5, mask_zero=True)(tokens)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    model = keras.Model(tokens, layers.LSTM(4, go_backwards=True)(x))
    artifact = export_litert(model, tmp_path / "model.tflite", target=target, sizes={"batch": [1]})
    counts = count_operators(artifact)
    assert (counts[FUSED], counts["WHILE"]) == (3, 0)
    rows = np.random.default_rng(0).integers(1, 9, (1, 7)).astype("int32")
    masks = [np.arange(7) < 4, np.arange(7) > 2, np.arange(7) % 3 != 1, np.zeros(7), np.ones(7)]
    given = [{"tokens": (rows * mask).astype("int32")} for mask in masks]
    assert check_parity(model, artifact, inputs=given, runtimes="litert").passed


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 10, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_recurrent_layers_equal_keras_after_any_number_of_steps(steps: int, tmp_path: Path) -> None:
    stack = (layers.LSTM(8, return_sequences=True), layers.GRU(8, return_sequences=True))
    model = chain_layers((steps, 5), *stack)
    artifact = export_litert(model, tmp_path / "model.tflite", sizes={"batch": [2]})
    assert count_operators(artifact)[FUSED] == 1
    assert check_parity(model, artifact, runtimes="litert").passed


@pytest.mark.slow
def test_four_lstm_layers_are_four_operators(tmp_path: Path) -> None:
    stack = [layers.LSTM(16, return_sequences=True) for _ in range(4)]
    artifact = export_litert(chain_layers((20, 5), *stack), tmp_path / "model.tflite", target="micro")
    assert count_operators(artifact) == {FUSED: 4, "ADD": 8}
