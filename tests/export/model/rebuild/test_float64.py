"""A model in float64 computes in float64 on every backend, where the check and the check of a dataset need it."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_pe.export.model.rebuild import float64_allowed, in_float64

_ROWS = """
import keras, numpy as np
from keras_pe.export.comparison.references.keras import KerasReference

keras.utils.set_random_seed(0)
x = keras.Input((8,), name="x")
y = keras.layers.Dense(4, name="dense")(x)
normal = keras.layers.LayerNormalization()(y)
likely = keras.layers.Softmax()(normal) / 3.0
model = keras.Model(x, {"y": y, "likely": likely, "mean": keras.ops.mean(likely * normal, axis=-1)})
values = np.random.default_rng(0).normal(size=(3, 8)).astype("float32")
rows = KerasReference(model, compiled=True)
found = rows.truth({"x": values})

kernel = keras.ops.convert_to_numpy(model.get_layer("dense").kernel).astype("float64")
y = values.astype("float64") @ kernel
normal = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-3)
likely = np.exp(normal) / np.exp(normal).sum(-1, keepdims=True) / 3.0
for name, truth in {"y": y, "likely": likely, "mean": (likely * normal).mean(-1)}.items():
    assert found[name].dtype == "float64", (name, found[name].dtype)
    error = abs(found[name] - truth).max()
    assert error < 1e-13, (name, error)  # some hundred roundings of 1e-16, of values below 5: float32's are 1e-7
assert rows.expect({"x": values})["y"].dtype == "float32"
"""


def test_the_rebuild_computes_in_float64_with_the_same_weights():
    x = keras.Input((8,), name="x")
    model = keras.Model(x, keras.layers.Dense(4, use_bias=False)(x))
    values = np.random.default_rng(0).normal(size=(3, 8))
    rebuilt = in_float64(model)
    with float64_allowed():
        found = keras.ops.convert_to_numpy(rebuilt(values))
    kernel = keras.ops.convert_to_numpy(model.weights[0].value).astype(np.float64)
    np.testing.assert_allclose(found, values @ kernel, rtol=0, atol=8 * 2.0**-52 * 8)  # a sum of eight terms below 8


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_truth_of_rows_is_float64_on_another_backend(backend):
    pytest.importorskip(backend)
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run([sys.executable, "-c", _ROWS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
