"""A Keras model as the reference: errors if it cannot be rebuilt, or if its inputs are ambiguous."""

import re

import keras
import numpy as np
import pytest

from keras_pe.export import check_parity
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import RuntimeRefusedError


class Halving(keras.layers.Layer):
    """Its configuration does not say what its constructor needs."""

    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, x):
        return x * self.factor

    def get_config(self):
        return {"name": self.name}


class Picky(keras.layers.Layer):
    """Refuses a type, or a largest value of one, when it runs."""

    def __init__(self, refused=None, refuses_ones=False, **kwargs):
        super().__init__(**kwargs)
        self.refused, self.refuses_ones = refused, refuses_ones

    def call(self, x):
        if hasattr(x, "numpy") and keras.backend.standardize_dtype(x.dtype) == self.refused:
            raise TypeError(f"no kernel for {self.refused}")
        if hasattr(x, "numpy") and self.refuses_ones and x.numpy().max() == 1:
            raise ValueError("no ones")
        return x * 2

    def get_config(self):
        return {**super().get_config(), "refused": self.refused, "refuses_ones": self.refuses_ones}


@pytest.mark.parametrize(("layer", "reason"), [
    (Halving(0.5), r"no float64 rebuild is possible: .*Halving.*factor"),
    (Picky(refused="float64"), "the float64 rebuild does not run: TypeError: .*no kernel for float64"),
    (Picky(refuses_ones=True), r"roles of its inputs .*\(ValueError: .*no ones"),
])  # fmt: skip
def test_the_report_says_why_something_about_the_model_could_not_be_found_out(layer, reason):
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layer(x))
    report = check_parity(model, inputs=[{"x": np.full((2, 4), 3, np.float32)}], runtimes="keras[graph]")
    assert report.compared
    text = " ".join(str(report).split())
    assert re.search(reason, text), text


def test_a_rebuild_that_returns_another_shape_is_none():
    x = keras.Input((0,), name="x")  # Keras' configuration holds an empty constant without its shape
    model = keras.Model(x, keras.ops.tensordot(x, np.zeros((0, 5), np.float32), 1))
    report = check_parity(model, inputs=[{"x": np.zeros((2, 0), np.float32)}], runtimes="keras[graph]")
    assert report.passed, str(report)
    assert "returns other shapes when it is made again" in " ".join(str(report).split())


@pytest.mark.parametrize("compiled", [False, True])
def test_rows_are_answered_as_cases_are_and_a_rebuild_that_does_not_run_says_so(compiled):
    x = keras.Input((4,), name="x")
    reference = KerasReference(keras.Model(x, Picky(refused="float64", name="y")(x)), compiled=compiled)
    rows = {"x": np.full((2, 4), 3.0)}  # numPy's default type
    assert reference.expect(rows)["y"].tolist() == [[6.0] * 4] * 2
    with pytest.raises(RuntimeRefusedError, match="no kernel for float64"):
        reference.truth({"x": rows["x"].astype(np.float32)})
