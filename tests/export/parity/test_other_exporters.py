"""Files of other exporters are checked against the model that they came from, and a fault in one of them is located."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import check_parity
from tests.export.parity.other_exporters import build_model, with_another_kernel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning"),  # Keras asks NumPy 2.4 for it
]

INPUTS, OUTPUTS = ("x", "context"), ("inner", "score")  # as Keras flattens a dictionary
ROOT = Path(__file__).parents[3]
EXPORTERS = {  # and the modules that each needs
    "tensorflow": ("tf2onnx",),
    "jax": ("jax", "jax2onnx"),
    "torch": ("torch", "onnxscript"),
    "bare tf2onnx": ("tf2onnx",),
}


@pytest.fixture(scope="module", params=EXPORTERS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """An exporter, the model as it was saved, and the file."""
    exporter = request.param
    for module in EXPORTERS[exporter]:
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("exported")
    if exporter == "bare tf2onnx":
        model = build_model()
        model.save(folder / "model.keras")
        _convert_bare(model, folder / "model.onnx")
        return exporter, folder / "model.keras", folder / "model.onnx"
    command = [sys.executable, "-m", "tests.export.parity.other_exporters", str(folder)]
    environment = {**os.environ, "KERAS_BACKEND": exporter}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return exporter, folder / "model.keras", folder / "model.onnx"


def test_an_onnx_file_passes_and_the_report_says_which_of_its_names_was_taken_for_which(
    exported: tuple[str, Path, Path],
) -> None:
    exporter, model, path = exported
    report = check_parity(model, path, runtimes=["onnxruntime[disabled]", "onnxruntime[all]"])
    assert report.passed, str(report)
    assert report.compared > 400
    assert len({case.inputs["x"] for case in report.cases}) > 2, "no size was baked in"
    differ = {new: old for old, new in _names(path).items() if old != new}
    assert bool(differ) is (exporter != "tensorflow")
    for result in report.results:
        assert {each.model: each.artifact for each in result.names} == differ
    said = " ".join(str(report).split())
    assert all(f"{name!r} is {theirs!r}" in said for name, theirs in differ.items())


def test_swapped_outputs_are_found_as_such(exported: tuple[str, Path, Path], tmp_path: Path) -> None:
    _, model, source = exported
    other = keras.models.load_model(model)
    swapped = keras.Model(other.inputs, {"score": other.output["inner"], "inner": other.output["score"]})
    swapped.save(tmp_path / "swapped.keras")
    (result,) = check_parity(tmp_path / "swapped.keras", source, runtimes="onnxruntime[all]").results
    assert not result.passed
    assert {finding.cause for finding in result.findings} == {"swapped outputs"}


def test_a_kernel_with_the_other_sign_is_found_and_located(exported: tuple[str, Path, Path], tmp_path: Path) -> None:
    _, model, source = exported
    kernel = keras.models.load_model(model).get_layer("hidden").kernel.numpy()
    damaged = with_another_kernel(source, tmp_path / "damaged.onnx", kernel)
    (result,) = check_parity(model, damaged, runtimes="onnxruntime[all]").results
    assert not result.passed
    assert [layer.layer for layer in result.layers if layer.originates_here] == ["hidden"]
    assert {(finding.layer, finding.cause) for finding in result.findings} == {("hidden", "flipped sign")}


def test_a_saved_model_of_keras_passes_and_a_changed_weight_is_located(tmp_path: Path) -> None:
    model = build_model()
    model.export(tmp_path / "model", verbose=False)
    report = check_parity(model, tmp_path / "model", runtimes="tensorflow")
    assert report.passed, str(report)
    hidden = model.get_layer("hidden")
    hidden.kernel.assign(-hidden.kernel)
    (result,) = check_parity(model, tmp_path / "model", runtimes="tensorflow").results
    assert not result.passed
    assert [layer.layer for layer in result.layers if layer.originates_here] == ["hidden"]


def test_a_saved_model_and_a_litert_file_of_bare_tensorflow_pass_under_names_of_its_own(tmp_path: Path) -> None:
    import tensorflow as tf

    x, context = keras.Input((8,), name="x"), keras.Input((6,), name="context")
    inner = keras.layers.Dense(6)(x) + keras.layers.Dense(6)(context)
    model = keras.Model([x, context], {"score": keras.layers.Dense(6)(inner), "inner": inner})
    specs = [tf.TensorSpec((2, each.shape[-1]), name=name) for each, name in zip(model.inputs, "ab", strict=True)]
    serve = tf.function(lambda a, b: dict(zip(("c", "d"), keras.tree.flatten(model([a, b])), strict=True)))
    module = tf.Module()
    module.serve, module.kept = serve, [variable.value for variable in model.variables]
    concrete = serve.get_concrete_function(*specs)
    tf.saved_model.save(module, str(tmp_path / "bare"), {"serving_default": concrete})
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], module)
    (tmp_path / "bare.tflite").write_bytes(converter.convert())
    inputs = {name: np.ones((2, size), "float32") for name, size in (("x", 8), ("context", 6))}
    artifacts = [tmp_path / "bare", tmp_path / "bare.tflite"]
    report = check_parity(model, artifacts, inputs=inputs, runtimes=["tensorflow", "litert"])
    assert report.passed, str(report)
    for result in report.results:
        names = {each.model: (each.artifact, each.by_order) for each in result.names}
        assert names == {"x": ("a", False), "context": ("b", False), "inner": ("c", True), "score": ("d", True)}


def _names(path: Path) -> dict[str, str]:
    """Returns the model's name for each of a file's, by their order."""
    graph = onnx.load(path).graph
    names = dict(zip((value.name for value in graph.input), INPUTS, strict=True))
    return names | dict(zip((value.name for value in graph.output), OUTPUTS, strict=True))


def _convert_bare(model: keras.Model, path: Path) -> None:
    import tensorflow as tf
    import tf2onnx
    from keras.src.export.tf2onnx_lib import patch_tf2onnx

    patch_tf2onnx()  # tf2onnx 1.17 uses names that NumPy 2 has no more
    named = zip(model.inputs, ("features", "side"), strict=True)
    specs = [tf.TensorSpec(each.shape, name=name) for each, name in named]
    tf2onnx.convert.from_function(tf.function(lambda *x: model(list(x))), specs, opset=18, output_path=str(path))
