"""Each runtime opens a real artifact, names what it takes and returns, and agrees with Keras."""

import keras
import numpy as np
import pytest

import keras_pe
from keras_pe.export import export_litert, export_onnx, export_saved_model
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker

EXPORTS = {
    "onnx": (export_onnx, "m.onnx"),
    "tf_saved_model": (export_saved_model, "m"),
    "litert": (export_litert, "m.tflite"),
}
# A second process with TensorFlow in it takes its time.
TENSORFLOW = pytest.param("tensorflow", marks=pytest.mark.slow)
RUNTIMES = ("onnxruntime[disabled]", "onnxruntime[all]", "onnx_reference", "litert", TENSORFLOW)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(2)
    x = keras.Input((None, 8), name="x")
    y = keras.layers.Dense(3, name="y")(keras_pe.SinusoidalPositionEncoding(max_length=64)(x))
    return keras.Model(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_takes_and_returns_the_names_of_the_model(model, name, tmp_path):
    (spec,) = find_runtimes([name])
    export, file = EXPORTS[spec.format]
    artifact = export(model, tmp_path / file)
    x = np.random.default_rng(0).standard_normal((3, 5, 8)).astype(np.float32)
    with Worker(spec, timeout=60) as worker:
        worker.load(artifact.path)
        assert [(i.name, i.dtype, len(i.shape)) for i in worker.inputs] == [("x", "float32", 3)]
        assert all(isinstance(dim, str) for dim in worker.inputs[0].shape[:2])
        assert worker.inputs[0].shape[2] == 8
        outputs = worker.run({"x": x})
        with pytest.raises(RuntimeRefusedError):
            worker.run({"other": x})
    assert list(outputs) == ["y"]
    # 8 products of size 1 and three additions: a few units of float32.
    np.testing.assert_allclose(outputs["y"], np.asarray(model(x)), rtol=0, atol=2e-6)
