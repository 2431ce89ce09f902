"""A model in float64 computes in float64 on every backend, where the check and the check of a dataset need it."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_pe.export.model.float64 import float64_allowed, in_float64

_ROWS = """
import keras, numpy as np
from keras_pe.export.parity.dataset.reference import KerasRows

keras.utils.set_random_seed(0)
x = keras.Input((8,), name="x")
model = keras.Model(x, {"y": keras.layers.Dense(4, name="dense")(x)})
values = np.random.default_rng(0).normal(size=(3, 8)).astype("float32")
rows = KerasRows(model, None)
kernel = keras.ops.convert_to_numpy(model.get_layer("dense").kernel).astype("float64")
truth = rows.truth({"x": values})["y"]
assert truth.dtype == "float64", truth.dtype
assert abs(truth - values.astype("float64") @ kernel).max() < 1e-14
assert rows.run({"x": values})["y"].dtype == "float32"
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
