"""An image is turned before it is prepared, where nothing but constants prepares it."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from keras_pe.export import export_onnx

L = keras.layers


def _image_model(branches: bool) -> keras.Model:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 6, 3), name="images")
    normalization = L.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 5.0, 6.0])
    x = normalization(L.Rescaling(0.5, offset=-1.0)(inputs))
    y = L.Conv2D(4, 3, padding="same")(x)
    return keras.Model(inputs, y + L.Dense(4)(x) if branches else y)


@pytest.mark.parametrize("branches", [False, True], ids=["for a convolution alone", "for others, too"])
def test_a_convolution_reads_an_image_that_was_turned_first(branches: bool, tmp_path: Path) -> None:
    model = _image_model(branches)
    artifact = export_onnx(model, tmp_path / "m.onnx")
    operators = [node.op_type for node in onnx.load(artifact.path).graph.node]
    assert (operators[0] == "Transpose") is not branches
    images = np.random.default_rng(0).normal(size=(2, 8, 6, 3)).astype("float32")
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    # Sums of 27 products of numbers up to 2, each rounded to float32.
    np.testing.assert_allclose(session.run(None, {"images": images})[0], model(images), rtol=0, atol=27 * 2 * 2**-23)
