"""Recurrent layers arrive as one operator each, with the same numbers, or stay the loop that they are."""

import collections
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf

from keras_pe.export import ExportError, export_onnx
from keras_pe.export.artifacts.artifact import Artifact
from tests.export.onnx.exported import export_and_compare, file_operators, randomize_weights

layers = keras.layers
FUSED = {"LSTM", "GRU", "RNN"}
# Both sides round each gate, state and output once a step, and a step does not magnify the error of its inputs. The
# error is that of 20 steps of a few roundings of numbers below 4.
TOLERANCE = 20 * 4 * 4 * float(np.finfo("float32").eps)


class OtherGRU(layers.GRU):
    """A subclass, which may compute anything."""

    def inner_loop(self, sequences: Any, initial_state: Any, mask: Any, training: bool = False) -> Any:
        return super().inner_loop(2.0 * sequences, initial_state, mask, training)


class OtherCell(layers.GRUCell):
    """A cell that is not the layer's own."""

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        return super().call(2.0 * inputs, states, training)


class OtherLSTMCell(layers.LSTMCell):
    """A subclass that computes the same, which nobody can know."""


def with_other_cell(x: Any) -> Any:
    layer = layers.GRU(6)
    layer.cell = OtherCell(6)
    return layer(x)


def make_model(*recurrent: Any) -> keras.Model:
    """Returns a model of several branches."""
    inputs = keras.Input((None, 5), name="x")
    return randomize_weights(keras.Model(inputs, [branch(inputs) for branch in recurrent]), -0.5, 0.5)


def export(model: keras.Model, folder: Path) -> tuple[Artifact, list[str]]:
    """Returns the artifact of a model, which agrees with Keras at some lengths, and its operators."""
    sizes, rng = ((1, 1), (3, 7), (2, 20)), np.random.default_rng(0)
    cases = [rng.normal(size=(batch, length, 5)).astype("float32") for batch, length in sizes]
    artifact = export_and_compare(model, folder / "model.onnx", *cases, atol=TOLERANCE)
    return artifact, file_operators(artifact.path)


@pytest.mark.slow
def test_sequences_of_no_features_are_computed_from_the_states_alone(tmp_path: Path) -> None:
    """ONNX Runtime's LSTM returns what was in memory for them, and its GRU ends the process.

    So does TensorFlow's product over no columns where oneDNN is on, hence a process without it.
    """
    code = f"""
import sys, keras, numpy as np, onnx, onnxruntime
from keras_pe.export import export_onnx
inputs, x = keras.Input((None, 0), name="x"), np.zeros((3, 7, 0), "float32")
for kind in (keras.layers.LSTM, keras.layers.GRU):
    model = keras.Model(inputs, kind(6, return_sequences=True, bias_initializer="ones")(inputs))
    artifact = export_onnx(model, sys.argv[1])
    assert kind.__name__ in [node.op_type for node in onnx.load(artifact.path).graph.node]
    session = onnxruntime.InferenceSession(artifact.path)
    np.testing.assert_allclose(session.run(None, {{"x": x}})[0], model(x), rtol=0, atol={TOLERANCE})
"""
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    subprocess.run([sys.executable, "-c", code, tmp_path / "model.onnx"], check=True, env=environment)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"use_bias": False},
    {"activation": "relu"},
    {"return_sequences": True, "return_state": True},
    {"go_backwards": True},
    {"go_backwards": True, "return_sequences": True, "return_state": True},
]
KINDS = (layers.LSTM, layers.GRU, layers.SimpleRNN)
# The branches of a model, each a function or a layer, and the number of recurrent operators.
BRANCHES: dict[str, tuple[list[Any], int]] = {
    **{kind.__name__: ([kind(6, **options) for options in OPTIONS], len(OPTIONS)) for kind in KINDS},
    "other options and states": ([
        lambda x: layers.GRU(6, reset_after=False)(x),
        lambda x: layers.GRU(6, reset_after=False, use_bias=False)(x),
        lambda x: layers.GRU(6, recurrent_activation="tanh", implementation=1)(x),
        lambda x: layers.LSTM(6, recurrent_activation="relu", activation="sigmoid")(x),
        lambda x: layers.Bidirectional(layers.GRU(6, return_sequences=True))(x),
        lambda x: layers.Bidirectional(layers.LSTM(6), merge_mode="sum")(x),
        lambda x: layers.GRU(6)(x, initial_state=layers.Dense(6)(x[:, 0])),
        lambda x: layers.LSTM(6)(x, initial_state=layers.LSTM(6, return_state=True)(x)[1:]),
        lambda x: layers.GRU(6)(layers.GRU(6, return_sequences=True)(x)),
        lambda x: layers.TimeDistributed(layers.GRU(6))(keras.ops.stack([x, 2.0 * x], 1)),
        lambda x: layers.RNN(layers.LSTMCell(6), go_backwards=True)(x),
        lambda x: layers.RNN(layers.GRUCell(6), return_sequences=True)(x),
        lambda x: layers.RNN(layers.SimpleRNNCell(6), return_state=True)(x),
    ], 9 + 2 * 4),  # four branches have two recurrent layers
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("branches", "count"), BRANCHES.values(), ids=BRANCHES)
def test_a_recurrent_layer_is_one_operator(branches: list[Any], count: int, tmp_path: Path) -> None:
    _, found = export(make_model(*branches), tmp_path)
    assert sum(name in FUSED for name in found) == count
    assert "Loop" not in found


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("length", [None, 7])
def test_a_state_that_begins_as_zeros_is_not_computed(length: int | None, tmp_path: Path) -> None:
    inputs = keras.Input((length, 5), name="x", batch_size=2 if length else None)
    model = keras.Model(inputs, layers.LSTM(6)(inputs))
    assert file_operators(export_onnx(model, tmp_path / "m.onnx").path) == ["Transpose", "LSTM", "Squeeze"]


@pytest.mark.slow
def test_a_layer_that_is_called_twice_has_its_weights_once(tmp_path: Path) -> None:
    shared = layers.GRU(32)
    model = make_model(lambda x: layers.Concatenate()([shared(x), shared(2.0 * x)]))
    artifact, _ = export(model, tmp_path)
    large = {x.name for x in onnx.load(artifact.path).graph.initializer if onnx.numpy_helper.to_array(x).size > 32}
    assert {name for name in large if name.startswith(shared.path)} == {f"{shared.path}/{name}" for name in "WRB"}


@pytest.mark.slow
def test_a_recurrence_that_the_operator_lacks_stays_a_loop(tmp_path: Path) -> None:
    model = make_model(
        lambda x: layers.GRU(6)(layers.Masking()(x)),
        lambda x: layers.GRU(6, activation="elu")(x),
        lambda x: layers.LSTM(6, recurrent_activation=lambda y: keras.ops.sigmoid(2.0 * y))(x),
        lambda x: OtherGRU(6)(x),
        with_other_cell,
        lambda x: layers.RNN(OtherLSTMCell(6))(x),
        lambda x: layers.RNN([layers.LSTMCell(6), layers.GRUCell(4)])(x),
    )
    artifact, found = export(model, tmp_path)
    assert found.count("Loop") == 7
    assert not FUSED & set(found)
    assert collections.Counter(reason for each in artifact.contents for reason in each.unfused.values()) == {
        "it is masked, and the operator knows a length only": 1,
        "its activations are not tanh, sigmoid or relu": 2,
        "the layer or its cell is a class of its own": 3,
    }


class Sampled(keras.layers.Wrapper):
    """A layer whose dropout is always active."""

    def call(self, x: Any) -> Any:
        return self.layer(x, training=True)


@pytest.mark.slow
def test_a_recurrence_with_active_dropout_keeps_its_draws(tmp_path: Path) -> None:
    inputs = keras.Input((3, 5), name="x")
    model = keras.Model(inputs, Sampled(layers.GRU(6, dropout=0.5))(inputs))
    artifact = export_onnx(model, tmp_path / "model.onnx", seed="argument")
    assert not FUSED & {*file_operators(artifact.path)}
    assert {*artifact.contents[0].unfused.values()} == {"it has dropout, which the operator lacks"}


def test_code_that_only_python_runs_is_refused_as_such(tmp_path: Path) -> None:
    def double(x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lambda y: 2 * y, [x], "float32", stateful=False), x.shape)

    model = make_model(lambda x: layers.Lambda(double, output_shape=(None, 5))(x))
    with pytest.raises(ExportError, match="Only Python runs its code"):
        export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.slow
def test_an_export_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = make_model(layers.GRU(6))
    x = np.ones((2, 3, 5), "float32")
    before = np.asarray(model(x))
    export_onnx(model, tmp_path / "model.onnx")
    np.testing.assert_array_equal(model(x), before)
    assert "inner_loop" not in vars(model.layers[-1])
    model.save(tmp_path / "model.keras")
