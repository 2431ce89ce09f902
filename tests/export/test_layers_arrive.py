"""Every way to call the layers arrives in ONNX Runtime, a SavedModel and LiteRT, by the package's own check."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_pe import (
    AlibiBias,
    LearnedPositionEmbedding,
    RelativePositionBias,
    RelativePositionEmbedding,
    RotaryPositionEncoding,
    SinusoidalPositionEncoding,
    from_convention,
    tensor2tensor,
)
from keras_pe.conventions import CONVENTIONS
from keras_pe.export import check_parity, export_litert, export_onnx, export_saved_model
from keras_pe.export.model.sizes.dimensions import dimensions_from_json
from keras_pe.export.model.sizes.sizes import SizeRange


def grid() -> keras.Model:
    images = keras.Input((None, None, 19), name="images")
    return keras.Model(images, SinusoidalPositionEncoding(start_index=[1, -2], layout="interleaved")(images))


def bounded_volume() -> keras.Model:
    volumes = keras.Input((None, None, None, 24), name="volumes")
    return keras.Model(volumes, SinusoidalPositionEncoding(max_length=[300, 300, 300])(volumes))


def coordinates() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    rows, columns = (keras.Input((None,), dtype="int32", name=name) for name in ("rows", "columns"))
    return keras.Model([x, rows, columns], SinusoidalPositionEncoding()(x, positions=[rows, columns]))


def fractional_positions() -> keras.Model:
    x, times = keras.Input((None, 16), name="x"), keras.Input((None,), name="times")
    return keras.Model([x, times], SinusoidalPositionEncoding(combine="concatenate")(x, positions=times))


def decoder_step() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    step = keras.Input(batch_shape=(None,), dtype="int32", name="step")
    return keras.Model([x, step], SinusoidalPositionEncoding(start_index=5)(x, start_index=step))


def learned() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    return keras.Model(x, LearnedPositionEmbedding(300)(x))


def learned_grid() -> keras.Model:
    images = keras.Input((None, None, 8), name="images")
    return keras.Model(images, LearnedPositionEmbedding([300, 300], initializer="sinusoidal")(images))


def ported() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    y = tensor2tensor.add_layer_timing_signal_sinusoid_1d(x, 2, 6)
    y = tensor2tensor.add_layer_timing_signal_learned_1d(y, 3, 6)
    return keras.Model(x, tensor2tensor.add_timing_signal_1d(y, start_index=3))


def rotary() -> keras.Model:
    queries, keys = keras.Input((None, 4, 16), name="queries"), keras.Input((None, 1, 16), name="keys")
    step = keras.Input(batch_shape=(None,), dtype="int32", name="step")
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    layer = RotaryPositionEncoding(layout="interleaved", rotary_dim=8, scaling=yarn)
    return keras.Model([queries, keys, step], list(layer(queries, keys, start_index=step)))


def biases() -> keras.Model:
    queries, keys = keras.Input((None, 4, 16), name="queries"), keras.Input((None, 4, 16), name="keys")
    step = keras.Input(batch_shape=(None,), dtype="int32", name="step")
    layers = AlibiBias(4), RelativePositionBias(4), RelativePositionEmbedding(4, 8)
    return keras.Model([queries, keys, step], [layer(queries, keys, start_index=step) for layer in layers])


def every_convention() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    return keras.Model(
        x, {name: from_convention(name, 16, name=name)(x) for name, each in CONVENTIONS.items() if each.axes == 1}
    )


MODELS = [
    grid,
    coordinates,
    decoder_step,
    learned_grid,
    ported,
    rotary,
    biases,
    *(
        pytest.param(build, marks=pytest.mark.slow)
        for build in (bounded_volume, fractional_positions, learned, every_convention)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_the_onnx_file_says_what_keras_says(tmp_path: Path, build: Callable[[], keras.Model]) -> None:
    keras.utils.set_random_seed(0)
    model = build()
    report = check_parity(model, export_onnx(model, tmp_path / "model.onnx"), runtimes=["onnxruntime"])
    assert report.passed, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_the_saved_model_says_what_keras_says(tmp_path: Path, build: Callable[[], keras.Model]) -> None:
    keras.utils.set_random_seed(0)
    model = build()
    report = check_parity(model, export_saved_model(model, tmp_path / "saved_model"), runtimes=["tensorflow"])
    assert report.passed, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("build", [rotary, biases], ids=lambda build: build.__name__)
def test_the_litert_file_says_what_keras_says(tmp_path: Path, build: Callable[[], keras.Model]) -> None:
    keras.utils.set_random_seed(0)
    model = build()
    report = check_parity(model, export_litert(model, tmp_path / "model.tflite"), runtimes=["litert"])
    assert report.passed, str(report)


def test_a_learned_table_shorter_than_its_input_is_told_and_fails_in_onnx_runtime(tmp_path: Path) -> None:
    import onnxruntime as ort

    x = keras.Input((None, 16), name="x")
    artifact = export_onnx(keras.Model(x, LearnedPositionEmbedding(20)(x)), tmp_path / "model.onnx")
    assert dimensions_from_json(artifact.metadata["keras_pe.sizes"])["length"].sizes == SizeRange(1, 1, 20)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(tmp_path / "model.onnx", options)
    assert session.run(None, {"x": np.zeros((2, 20, 16), "float32")})[0].shape == (2, 20, 16)
    with pytest.raises(Exception, match="Reshape"):
        session.run(None, {"x": np.zeros((2, 21, 16), "float32")})
