"""A model whose compiled results differ from eager ones has a fault of Keras, and the layer is named."""

import keras
import numpy as np
import pytest

from keras_pe.export import check_parity, export_onnx


class Rounding(keras.layers.Layer):
    """Returns integers where its values are at hand, and does not round in a graph."""

    def call(self, x):
        half = keras.ops.cast(x, "float32") / 2
        return keras.ops.cast(half, "uint8") if hasattr(x, "numpy") else half


@pytest.mark.slow
def test_a_layer_that_returns_another_type_in_a_graph_is_named(tmp_path):
    keras.utils.set_random_seed(0)
    images = keras.Input((14, 18, 3), dtype="uint8", name="images")
    model = keras.Model(images, keras.layers.Rescaling(1 / 255, name="scale")(Rounding(name="small")(images)))
    report = check_parity(model, export_onnx(model, tmp_path / "model.onnx"), runtimes=["onnxruntime[all]"])
    (finding,) = report.results[0].findings
    assert (finding.cause, finding.layer) == ("Keras differs from itself", "small"), report
    assert "uint8" in finding.evidence
    assert "float32" in finding.evidence


class Odd(keras.layers.Layer):
    """Computes something else where its values are at hand."""

    def call(self, x):
        return keras.ops.sort(x) * keras.ops.flip(x, -1) if hasattr(x, "numpy") else keras.ops.square(x)


class Growing(keras.layers.Layer):
    """Computes an exponential where its values are at hand, and else a square, as an edit of the code would, too."""

    def call(self, x):
        return keras.ops.exp(x) if hasattr(x, "numpy") else keras.ops.square(x)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [Odd, Growing])
def test_a_layer_that_returns_other_numbers_in_a_graph_is_named(layer, tmp_path):
    keras.utils.set_random_seed(0)
    x = keras.Input((6,), name="x")
    hidden = keras.layers.Dense(4, name="mix")(x)
    model = keras.Model(x, keras.layers.Dense(2, name="head")(layer(name="odd")(hidden)))
    report = check_parity(model, export_onnx(model, tmp_path / "model.onnx"), runtimes=["onnxruntime[all]"])
    (finding,) = report.results[0].findings
    assert (finding.cause, finding.layer) == ("Keras differs from itself", "odd"), report
    assert "differ by" in finding.evidence


@pytest.mark.slow
def test_a_fault_of_the_file_is_not_put_on_keras(tmp_path):
    keras.utils.set_random_seed(0)
    x = keras.Input((6,), name="x")
    model = keras.Model(x, keras.layers.Dense(4, name="mix")(x))
    file = export_onnx(model, tmp_path / "model.onnx")
    model.set_weights([np.random.default_rng(0).normal(size=weight.shape) for weight in model.get_weights()])
    report = check_parity(model, file, runtimes=["onnxruntime[all]"])
    assert "Keras differs from itself" not in {finding.cause for finding in report.results[0].findings}


@pytest.mark.slow
def test_an_axis_that_keras_takes_for_another_where_two_sizes_agree_is_put_on_keras_with_the_size(tmp_path):
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 6), name="x")
    split = keras.layers.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="d", name="split")
    model = keras.Model(x, keras.layers.Dense(3, name="head")(split(x)))
    split.bias.assign([[1.0], [-2.0]])  # one for each of two heads: at two steps it is added along the length
    report = check_parity(model, export_onnx(model, tmp_path / "model.onnx"), runtimes=["onnxruntime[all]"])
    (finding,) = report.results[0].findings
    assert (finding.cause, finding.layer) == ("Keras differs from itself", "split"), report
    assert "length 2" in finding.evidence
