"""A check that names no runtimes gives a verdict on every format, whatever backend Keras has."""

import json
import os
import subprocess
import sys

import keras
import pytest

import keras_pe
from keras_pe.export import export_litert, export_onnx, export_saved_model

_CHECK = """
import json, sys, keras, keras_pe
from keras_pe.cli import main
from keras_pe.export import check_parity

model = keras.saving.load_model(sys.argv[1])
report = check_parity(model, sys.argv[2:])
print(json.dumps([keras.backend.backend(), *([each.runtime, each.status, each.passed] for each in report.results)]))
main(["check", *sys.argv[1:3]])
"""

# Backends run the model itself: compiled by TensorFlow and by JAX, and not compiled by PyTorch, which cannot compile
# for any size.
COMPILED = {"tensorflow": ["keras[graph]"], "jax": ["keras[jit]"], "torch": []}
LEVELS = [f"onnxruntime[{level}]" for level in ("disabled", "basic", "extended", "layout", "all")]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A model as a `.keras` file, and as each format."""
    folder = tmp_path_factory.mktemp("exported")
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 4), name="x")
    y = keras_pe.SinusoidalPositionEncoding()(keras.layers.BatchNormalization()(x))
    model = keras.Model(x, keras.layers.Dense(3, name="y")(y))
    model.save(folder / "model.keras")
    exports = {"model.onnx": export_onnx, "model": export_saved_model, "model.tflite": export_litert}
    artifacts = [export(model, folder / name) for name, export in exports.items()]
    return [str(folder / "model.keras"), *(str(artifact.path) for artifact in artifacts)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", COMPILED)
def test_a_check_with_default_arguments_gives_a_verdict_on_every_format_and_so_does_the_command_line(
    exported: list[str], backend: str
) -> None:
    pytest.importorskip(backend)
    lines = _run(backend, "-c", _CHECK, *exported).stdout.splitlines()
    found, *ran = json.loads(next(line for line in lines if line.startswith("[")))
    assert found == backend
    assert ran == [[name, "compared", True] for name in (*COMPILED[backend], *LEVELS, "tensorflow", "litert")]


@pytest.mark.slow
def test_a_runtime_of_another_backend_is_refused_with_the_way_out(exported: list[str]) -> None:
    pytest.importorskip("jax")
    done = _run("jax", "-m", "keras_pe", "check", exported[0], "--runtime", "keras[graph]", code=2)
    assert "Runtime 'keras[graph]' needs Keras on another backend than jax. Set KERAS_BACKEND=tensorflow" in " ".join(
        done.stderr.split()
    )


def _run(backend: str, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "KERAS_BACKEND": backend, "COLUMNS": "500"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done
