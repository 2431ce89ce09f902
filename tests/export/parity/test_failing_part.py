"""A bundle of a failure has the smallest part of the ONNX file that fails alone, in the runtime alone."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import check_parity, export_onnx, write_bundle
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.parity.failing_part import FailingPart, find_failing_part
from tests.export.parity.diagnosis.faults import Surgery, build, half
from tests.export.parity.diagnosis.user_faults import CODE_FAULTS, EXPORTERS
from tests.export.runtimes.misoptimizing import FUSION, misoptimizing

pytestmark = pytest.mark.slow

Plant = Callable[[Path], tuple[keras.Model, Path]]


def _surgery(change: Callable[[Surgery], object]) -> Plant:
    def plant(folder: Path) -> tuple[keras.Model, Path]:
        model = build()
        surgery = Surgery(export_onnx(model, folder / "sound.onnx").path)
        change(surgery)
        return model, surgery.save(folder / "faulty.onnx")

    return plant


def _run_parts(bundle: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-I", bundle, "--part"], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("plant", "end", "operators"),
    [
        (_surgery(lambda s: s.weight("mix/kernel", np.negative)), "mix/Mul", ["MatMul", "Add", "Sigmoid", "Mul"]),
        (_surgery(lambda s: s.inside("norm", half)), "norm/LayerNormalization", ["Cast", "Cast", "LayerNormalization"]),
        (lambda folder: CODE_FAULTS[8].plant("onnx", folder), "attend/Add", None),
    ],
    ids=["weight", "operator", "user's code"],
)
def test_the_part_around_the_fault_fails_alone(
    plant: Plant, end: str, operators: list[str] | None, tmp_path: Path
) -> None:
    model, path = plant(tmp_path)
    report = check_parity(model, path, runtimes="onnxruntime[all]")
    write_bundle(report, tmp_path / "failure.npz")
    whole = len(onnx.load(path).graph.node)
    path.unlink()
    done = _run_parts(tmp_path / "failure.npz")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{end}: largest difference" in done.stdout
    with zipfile.ZipFile(tmp_path / "failure.npz") as file:
        part = onnx.load_from_string(file.read("part-0.onnx"))
    onnx.checker.check_model(part, full_check=True)
    found = [node.op_type for node in part.graph.node]
    assert len(found) < whole
    assert operators in (None, found)


def test_the_part_of_a_wrong_optimization_is_one_layer(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((None, 4)), *(keras.layers.Dense(4, name=name) for name in "abc")])
    path, spec = export_onnx(model, tmp_path / "model.onnx").path, misoptimizing(FUSION)
    (result,) = check_parity(model, path, runtimes=[spec]).results
    assert result.recording is not None
    part = find_failing_part(result, result.recording, spec)
    assert isinstance(part, FailingPart)
    (name,) = part.expected
    assert name in {each.tensor for each in result.layers}
    assert len(onnx.load_from_string(part.model).graph.node) == len(onnx.load(path).graph.node) / 3
    assert np.abs(part.actual[name] - part.expected[name]).max() > STRICT.flat_tolerance(part.expected[name])


@pytest.mark.parametrize("form", ["tf_saved_model", "litert"])
def test_a_bundle_of_another_format_has_the_tensors_of_the_layer(form: str, tmp_path: Path) -> None:
    export, name = EXPORTERS[form]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "tanh", name="mix"), keras.layers.Dense(2)])
    other = keras.models.clone_model(model)
    other.set_weights([-each if each.shape == (4, 3) else each for each in model.get_weights()])
    report = check_parity(model, export(other, tmp_path / name))
    write_bundle(report, tmp_path / "failure.npz")
    done = _run_parts(tmp_path / "failure.npz")
    assert done.returncode == 2
    assert "ONNX" in done.stderr
    with zipfile.ZipFile(tmp_path / "failure.npz") as file:
        layer = json.loads(file.read("manifest.json"))["failures"][0]["layer"]
    assert layer["layer"] == "mix"
    with np.load(tmp_path / "failure.npz") as arrays:
        given, expected = (arrays[each["array"]] for each in (layer["inputs"][0], layer["expected"]))
    np.testing.assert_allclose(np.asarray(model.get_layer("mix")(given)), expected, rtol=1e-5)


def test_a_failure_without_layers_says_why_it_has_no_part(tmp_path: Path) -> None:
    model = build()
    path = export_onnx(model, tmp_path / "sound.onnx").path
    surgery = Surgery(path)
    surgery.weight("mix/kernel", np.negative)
    report = check_parity(path, surgery.save(tmp_path / "faulty.onnx"), runtimes="onnxruntime[all]")
    write_bundle(report, tmp_path / "failure.npz")
    done = _run_parts(tmp_path / "failure.npz")
    assert done.returncode == 2
    assert "layers" in done.stderr
