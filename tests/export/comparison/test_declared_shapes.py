"""A check compares what an artifact declares of its outputs with what came back."""

import json
from pathlib import Path

import keras
import onnx
import pytest

from keras_pe.export import Cause, check_parity, export_onnx, export_saved_model
from keras_pe.export.artifacts.read_artifact import SIDECAR


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[keras.Model, Path]:
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, keras.layers.UpSampling1D(name="y")(keras.layers.Conv1D(3, 1)(x)))
    return model, export_onnx(model, tmp_path_factory.mktemp("declared") / "m.onnx").path


def _causes(model: keras.Model, path: Path, **options: object) -> list[Cause]:
    report = check_parity(model, path, runtimes=["onnxruntime[all]", "tensorflow"], **options)
    (result,) = report.results
    assert report.passed == result.passed == (not result.findings)
    return [finding.cause for finding in result.findings]


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("is_foreign", [False, True], ids=["own", "foreign"])
@pytest.mark.parametrize("size", [64, "length", "batch", "y_axis_1"])
def test_a_declared_size_that_does_not_come_back_is_a_cause(
    exported: tuple[keras.Model, Path], size: int | str, is_foreign: bool, tmp_path: Path
) -> None:
    file = onnx.load(exported[1])
    dim = file.graph.output[0].type.tensor_type.shape.dim[1]
    setattr(dim, "dim_value" if isinstance(size, int) else "dim_param", size)
    if is_foreign:  # another exporter's names of dimensions may mean nothing
        del file.metadata_props[:]
    path = tmp_path / "edited.onnx"
    onnx.save(file, path)
    is_false = isinstance(size, int) or (size != "y_axis_1" and not is_foreign)
    assert _causes(exported[0], path) == [Cause.FALSE_DECLARATION] * is_false


@pytest.mark.slow
def test_no_allowance_accepts_a_false_declaration(exported: tuple[keras.Model, Path], tmp_path: Path) -> None:
    file = onnx.load(exported[1])
    file.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 64
    path = tmp_path / "edited.onnx"
    onnx.save(file, path)
    assert _causes(exported[0], path, rtol=1.0, atol=1.0) == [Cause.FALSE_DECLARATION]


@pytest.mark.slow
def test_a_saved_model_declares_beside_its_graph(exported: tuple[keras.Model, Path], tmp_path: Path) -> None:
    path = export_saved_model(exported[0], tmp_path / "m").path
    assert _causes(exported[0], path) == []
    said = json.loads((path / SIDECAR).read_text())
    assert said["outputs"][0]["shape"][1] == "y_axis_1"
    said["outputs"][0]["shape"][1] = 64
    (path / SIDECAR).write_text(json.dumps(said))
    assert _causes(exported[0], path) == [Cause.FALSE_DECLARATION]
