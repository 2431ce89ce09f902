"""Models on other backends are exported by a process of their own, and compared with the caller's numbers."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from keras_pe.export import DisagreementError, ExportError, Format, UnsupportedError, export_onnx
from keras_pe.export.pipeline.other_backends import export_elsewhere
from keras_pe.export.pipeline.request import Request
from keras_pe.export.records import Artifact
from tests.export import forgetful


def _export_onnx(request: Request) -> Artifact:
    return export_onnx(request.model, request.filepath, input_signature=request.input_signature)


_EXPORT = """
import keras, numpy as np, keras_pe
from keras_pe.export import export_onnx, UnsupportedError
from keras_pe.export.runtimes.onnxruntime import OnnxRuntime

keras.utils.set_random_seed(0)
x = keras.Input((None, 8), name="x")
y = keras_pe.SinusoidalPositionEncoding()(x)
y = keras.layers.LayerNormalization()(y + keras.layers.MultiHeadAttention(2, 4)(y, y))
model = keras.Model(x, keras.layers.Dense(3, name="y")(y))
stages = []
artifact = export_onnx(model, "model.onnx", opset_version=17, progress=stages.append)
assert artifact.opset_version == 17 and artifact.inputs[0].shape == ("batch", "length", 8), artifact
assert stages[:3] == ["signature", "hand over", "signature"] and stages[-1] == "publish", stages
assert keras.backend.backend() == {backend!r}
values = np.random.default_rng(0).normal(size=(2, 13, 8)).astype("float32")
# A hundred roundings of values near 3.
difference = OnnxRuntime("model.onnx").run({{"x": values}})["y"] - keras.ops.convert_to_numpy(model(values))
assert abs(difference).max() < 1e-5, difference

class Own(keras.layers.Layer):
    def call(self, x):
        return x * 2.0

try:
    export_onnx(keras.Sequential([keras.Input((4,)), Own(name="mine")]), "own.onnx")
except UnsupportedError as error:
    assert error.layer == "mine" and "register_keras_serializable" in str(error), error
else:
    raise AssertionError("a class of this script was exported")
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_model_on_another_backend_is_exported_with_its_own_numbers(tmp_path: Path, backend: str) -> None:
    pytest.importorskip(backend)
    command = [sys.executable, "-c", _EXPORT.format(backend=backend)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "KERAS_BACKEND": backend}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


@pytest.mark.slow
def test_a_model_that_is_another_one_when_it_is_loaded_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((None, 4), name="x"), forgetful.Forgetful(name="y")])
    with pytest.raises(DisagreementError, match="output 'y' differs"):
        export_elsewhere(_export_onnx, Format.ONNX, Request(model, tmp_path / "m.onnx"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_exporters_refusal_is_the_callers(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,), dtype="int32", name="x"), keras.layers.Hashing(7, name="buckets")])
    with pytest.raises(ExportError, match="layer 'buckets'"):
        export_elsewhere(_export_onnx, Format.ONNX, Request(model, tmp_path / "m.onnx"))
    assert list(tmp_path.iterdir()) == []


def double(x: object) -> object:
    """Is not registered with Keras."""
    return x * 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_a_model_that_the_other_process_cannot_load_is_refused_with_the_way_out(tmp_path: Path) -> None:
    x = keras.Input((2,), name="x")
    gone = type("Gone", (keras.layers.Layer,), {"__module__": "gone_since", "call": lambda self, x: x * 2})
    keras.saving.register_keras_serializable("here")(gone)
    for layer, said in (
        (
            keras.layers.Dense(2, activation=double),
            r"cannot load it: Could not locate function 'double'\. Put",
        ),
        (
            keras.layers.Dense(2, activation=lambda x: x * 2),
            "identifier: Keras saves a lambda there, which it cannot load. Give the function a name. Put it into",
        ),
        (gone(), r"its module 'gone_since' cannot be imported there \(ModuleNotFoundError: No .*\)\. Put"),
    ):
        with pytest.raises(UnsupportedError, match=said):
            export_elsewhere(_export_onnx, Format.ONNX, Request(keras.Model(x, layer(x)), tmp_path / "m.onnx"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_lambda_of_the_callers_own_is_handed_over(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,), name="x"), keras.layers.Lambda(lambda x: x * 2, name="y")])
    assert export_elsewhere(_export_onnx, Format.ONNX, Request(model, tmp_path / "m.onnx")).outputs[0].name == "y"
