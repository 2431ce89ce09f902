"""Layers that Keras runs eagerly and cannot trace export for any size, and are unchanged afterwards."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
from keras import layers, ops

from keras_pe.export import TracingError, export_onnx, export_saved_model
from keras_pe.export.model.watch.keras_internals import resizing_to_tensors
from keras_pe.export.model.watch.symbolic_trace import as_traceable


class Steps(layers.Layer):
    """Adds up the steps of a sequence in a loop of Python's, and doubles the sums of long ones."""

    def call(self, inputs: Any) -> Any:
        total = ops.zeros_like(inputs[:, 0])
        for step in range(ops.shape(inputs)[1]):
            total = total + inputs[:, step]
        if ops.shape(inputs)[1] > 4:
            total = total * 2
        return total

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape[0], input_shape[2]


class Listed(Steps):
    """The same in a list of Python's, which no graph holds."""

    def call(self, inputs: Any) -> Any:
        steps = []
        for step in range(ops.shape(inputs)[1]):
            steps.append(inputs[:, step])
        return sum(steps)


def _model(layer: Any, shape: tuple[int | None, ...]) -> Any:
    x = keras.Input(shape, name="x")
    return keras.Model(x, layer(x))


@pytest.mark.slow
def test_a_loop_and_a_branch_over_the_length_arrive(tmp_path: Path) -> None:
    layer = Steps()
    model = _model(layer, (None, 3))
    session = ort.InferenceSession(export_onnx(model, tmp_path / "m.onnx").path, providers=["CPUExecutionProvider"])
    for shape in ((2, 3, 3), (1, 4, 3), (3, 5, 3), (2, 31, 3)):
        values = np.random.default_rng(0).normal(size=shape).astype("float32")
        expected = np.asarray(model(values))
        # a sum of at most 31 terms of about 1, in another order
        np.testing.assert_allclose(session.run(None, {"x": values})[0], expected, rtol=0, atol=1e-5)
    assert "call" not in vars(layer)


@pytest.mark.slow
def test_a_saved_model_of_them_is_written(tmp_path: Path) -> None:
    """It is run beside Keras, at two lengths, before it is published."""
    assert export_saved_model(_model(Steps(), (None, 3)), tmp_path / "m").inputs[0].shape == ("batch", "length", 3)


def test_an_image_of_any_size_is_interpolated(tmp_path: Path) -> None:
    usual = keras.ops.image.resize
    model = _model(layers.UpSampling2D((2, 3), interpolation="bilinear"), (None, None, 2))
    session = ort.InferenceSession(export_onnx(model, tmp_path / "m.onnx").path, providers=["CPUExecutionProvider"])
    for shape in ((1, 5, 7, 2), (3, 8, 2, 2)):
        values = np.random.default_rng(0).normal(size=shape).astype("float32")
        # a place between two pixels, of which there are up to 16, is rounded to 1e-6 or 2e-6; they differ by up to 4
        np.testing.assert_allclose(session.run(None, {"x": values})[0], np.asarray(model(values)), rtol=0, atol=1e-5)
    assert keras.ops.image.resize is usual


@pytest.mark.slow
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_an_image_of_any_size_is_cropped_or_resized(data_format: str, tmp_path: Path) -> None:
    shape = (None, None, 3) if data_format == "channels_last" else (3, None, None)
    inputs = keras.Input(shape, name="x")
    model = keras.Model(inputs, layers.CenterCrop(12, 10, data_format=data_format)(inputs))
    artifact = export_onnx(model, tmp_path / "m.onnx")
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for rows, columns in ((30, 21), (12, 10), (7, 40), (40, 7), (5, 6)):
        size = [rows, columns, 3] if data_format == "channels_last" else [3, rows, columns]
        x = rng.normal(size=(2, *size)).astype("float32")
        (actual,) = session.run(None, {"x": x})
        # Weights of a row and a column, rounded, times values of up to 5: some roundings of float32.
        np.testing.assert_allclose(actual, model(x), rtol=0, atol=5e-6)


def test_an_image_is_resized_to_sizes_that_only_the_graph_knows() -> None:
    import tensorflow as tf

    def resize_images(images: Any) -> Any:
        return keras.ops.image.resize(images, (tf.shape(images)[1] * 2, tf.shape(images)[2]))

    traced = tf.function(resize_images, input_signature=[tf.TensorSpec((None, None, None, 3))], autograph=False)
    with resizing_to_tensors():
        traced.get_concrete_function()
    assert traced(np.zeros((2, 3, 5, 3), "float32")).shape == (2, 6, 5, 3)


@pytest.mark.slow
@pytest.mark.parametrize("export", [export_onnx, export_saved_model])
def test_an_untraceable_model_reports_which_sizes_to_fix(export: Any, tmp_path: Path) -> None:
    model = _model(Listed(), (None, 3))
    free = keras.InputSpec(shape=(None, None, 3), dtype="float32")
    with pytest.raises(TracingError, match="input_signature=") as refusal:
        export(model, tmp_path / "m", input_signature=free)
    assert list(tmp_path.iterdir()) == []
    (written,) = re.findall(r"input_signature=(\[.*\])\.", str(refusal.value))
    assert export(model, tmp_path / "m", input_signature=eval(written)).inputs[0].shape == ("batch", 11, 3)


def test_a_traceable_model_is_traced_once() -> None:
    calls = []
    as_traceable([Steps()], lambda: calls.append(1))
    assert calls == [1]
