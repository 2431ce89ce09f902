"""The encoding is the same bits in Keras, in a SavedModel, and in ONNX Runtime at every optimization level."""

import itertools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
import tensorflow as tf
import tf2onnx

from keras_pe import SinusoidalPositionEncoding, timing_signal
from keras_pe.export import export_onnx, export_saved_model

LENGTHS = (1, 2, 63, 64, 65, 255, 256, 257, 1_000, 4_097, 70_000)
LONGEST = max(LENGTHS)
CHANNELS = 16
SAMPLE = (("concatenated", None, 0), ("interleaved", LONGEST, 0))
LEVELS = [level for name, level in ort.GraphOptimizationLevel.__members__.items()]


def session(path: Path, level: Any) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4  # expected failures are asserted, not printed
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def export_layer(config: dict[str, Any], folder: Path) -> tuple[keras.Model, Any, list[ort.InferenceSession]]:
    model = keras.Sequential([keras.Input((None, CHANNELS), name="x"), SinusoidalPositionEncoding(**config)])
    export_saved_model(model, folder / "saved_model")
    export_onnx(model, folder / "model.onnx")
    served = tf.saved_model.load(folder / "saved_model")
    sessions = [session(folder / "model.onnx", level) for level in LEVELS]
    return model, served, sessions


# In the default run each layout and each kind of table once.
@pytest.mark.slow_rows(4)
@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("layout", "max_length", "start_index"),
    [
        pytest.param(*each, marks=() if each in SAMPLE else pytest.mark.slow)
        for each in itertools.product(("concatenated", "interleaved"), (None, LONGEST), (0, 37))
    ],
)
def test_ranges_are_the_same_bits_everywhere(
    tmp_path: Path, layout: str, max_length: int | None, start_index: int
) -> None:
    config = {"layout": layout, "max_length": max_length, "start_index": start_index}
    model, served, sessions = export_layer({**config, "combine": "replace"}, tmp_path)
    graph = tf.function(model, input_signature=[tf.TensorSpec([None, None, CHANNELS])])
    assert len(LEVELS) >= 4
    for length in LENGTHS:
        x = np.zeros((1, length, CHANNELS), "float32")
        eager = np.asarray(model(x))
        assert (
            np.abs(eager[0] - timing_signal(start_index + np.arange(length), CHANNELS, layout=layout)).max() <= 2.5e-7
        )
        np.testing.assert_array_equal(graph(x), eager)
        np.testing.assert_array_equal(next(iter(served.signatures["serving_default"](tf.constant(x)).values())), eager)
        for each in sessions:
            np.testing.assert_array_equal(each.run(None, {"x": x})[0], eager)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [{}, {"start_index": 37}, {"start_index": -1_000_000}],
)
def test_given_positions_and_starts_are_the_same_bits_everywhere(tmp_path: Path, config: dict[str, Any]) -> None:
    x = keras.Input((None, CHANNELS), name="x")
    positions = keras.Input((None,), dtype="int32", name="positions")
    start = keras.Input(batch_shape=(None,), dtype="int32", name="start")
    outputs = SinusoidalPositionEncoding(combine="replace", **config)(x, positions=positions, start_index=start)
    model = keras.Model([x, positions, start], outputs)
    export_saved_model(model, tmp_path / "saved_model")
    export_onnx(model, tmp_path / "model.onnx")
    serve = tf.saved_model.load(tmp_path / "saved_model").signatures["serving_default"]
    rng = np.random.default_rng(0)
    given = {
        "x": np.zeros((3, 500, CHANNELS), "float32"),
        "positions": rng.integers(-(2**23), 2**23, (3, 500)).astype("int32"),
        "start": np.array([-5, 0, 2**20], "int32"),
    }
    eager = np.asarray(model(list(given.values())))
    exact = timing_signal(given["positions"] + given["start"][:, None] + config.get("start_index", 0), CHANNELS)
    assert np.abs(eager - exact).max() <= 2.5e-7
    served = serve(**{name: tf.constant(value) for name, value in given.items()})
    np.testing.assert_array_equal(next(iter(served.values())), eager)
    for level in LEVELS:
        np.testing.assert_array_equal(session(tmp_path / "model.onnx", level).run(None, given)[0], eager)


@pytest.mark.parametrize(
    "combine", ["add", *(pytest.param(each, marks=pytest.mark.slow) for each in ("replace", "concatenate"))]
)
@pytest.mark.parametrize(("max_length", "length"), [(5, 6), pytest.param(5, 500, marks=pytest.mark.slow)])
def test_an_input_longer_than_the_table_fails_in_every_artifact(
    tmp_path: Path, combine: str, max_length: int, length: int
) -> None:
    _, served, sessions = export_layer({"combine": combine, "max_length": max_length}, tmp_path)
    x = np.zeros((2, length, CHANNELS), "float32")
    for each in sessions:
        assert each.run(None, {"x": x[:, :max_length]})[0].shape[1] == max_length
        with pytest.raises(Exception, match="Reshape"):
            each.run(None, {"x": x})
    with pytest.raises(tf.errors.InvalidArgumentError):
        served.signatures["serving_default"](tf.constant(x))


@pytest.mark.slow
def test_the_only_row_of_a_table_is_not_broadcast(tmp_path: Path) -> None:
    # Nothing is left to tell a length from a constant 1, so the model is given what export_onnx would have to find out.
    layer = SinusoidalPositionEncoding(max_length=1)
    layer.build((None, None, CHANNELS))
    signature = [tf.TensorSpec([None, None, CHANNELS], name="x")]
    proto, _ = tf2onnx.convert.from_function(tf.function(layer, input_signature=signature), signature, opset=18)
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    for level in LEVELS:
        run = session(tmp_path / "model.onnx", level).run
        assert run(None, {"x": np.zeros((2, 1, CHANNELS), "float32")})[0].shape == (2, 1, CHANNELS)
        with pytest.raises(Exception, match="Reshape"):
            run(None, {"x": np.zeros((2, 2, CHANNELS), "float32")})


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("max_length", [None, 20])
def test_positions_out_of_reach_fail_in_every_artifact(tmp_path: Path, max_length: int | None) -> None:
    x, positions = keras.Input((None, CHANNELS), name="x"), keras.Input((None,), dtype="int32", name="positions")
    model = keras.Model([x, positions], SinusoidalPositionEncoding(max_length=max_length)(x, positions=positions))
    export_saved_model(model, tmp_path / "saved_model")
    export_onnx(model, tmp_path / "model.onnx")
    serve = tf.saved_model.load(tmp_path / "saved_model").signatures["serving_default"]
    run = session(tmp_path / "model.onnx", LEVELS[-1]).run
    low, high = (-(2**24), 2**24 - 1) if max_length is None else (0, max_length - 1)
    for position, is_reached in [(low, True), (high, True), (low - 1, False), (high + 1, False), (2**31 - 1, False)]:
        given = {"x": np.zeros((1, 1, CHANNELS), "float32"), "positions": np.array([[position]], "int32")}
        tensors = {name: tf.constant(value) for name, value in given.items()}
        if is_reached:
            np.testing.assert_array_equal(run(None, given)[0], next(iter(serve(**tensors).values())))
            continue
        with pytest.raises(Exception, match="out of data bounds"):
            run(None, given)
        with pytest.raises(tf.errors.InvalidArgumentError):
            serve(**tensors)
