"""An artifact read back from disk says what its export said."""

import contextlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import export_onnx, export_saved_model, read_artifact
from keras_pe.export.artifacts.onnx_model import read_without_weights
from keras_pe.export.artifacts.read_artifact import artifact_files
from tests.raised import about


def _model() -> keras.Model:
    return keras.Sequential([keras.Input((None, 8), name="values"), keras.layers.Dense(300, name="out")])


@pytest.mark.parametrize("threshold", [0, 2**20])
def test_an_onnx_file_is_read_back_as_it_was_returned(tmp_path: Path, threshold: int) -> None:
    artifact = export_onnx(_model(), tmp_path / "m.onnx", external_data_threshold=threshold)
    assert replace(read_artifact(artifact.path), seconds=artifact.seconds) == artifact


@pytest.mark.slow
def test_an_onnx_file_is_read_without_tensorflow(artifact: Any) -> None:
    file = artifact(_model, "onnx")
    code = f"import sys; from keras_pe.export import read_artifact; print(read_artifact({str(file.path)!r}).inputs)"
    code += "; assert not {'tensorflow', 'keras'} & set(sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "'batch', 'length', 8" in found.stdout


def test_the_weights_stay_on_disk_but_their_places_are_known(artifact: Any) -> None:
    file = artifact(_model, "onnx")
    whole, light = onnx.load(file.path), read_without_weights(file.path)
    assert len(light.SerializeToString()) < 4000 < file.nbytes
    content = file.path.read_bytes()
    for tensor, reference in zip(whole.graph.initializer, light.graph.initializer, strict=True):
        places = {entry.key: entry.value for entry in reference.external_data}
        if places:
            offset, length = int(places["offset"]), int(places["length"])
            assert content[offset : offset + length] == tensor.raw_data


def test_a_file_cut_anywhere_is_refused(artifact: Any, tmp_path: Path) -> None:
    content = artifact(_model, "onnx").path.read_bytes()
    for length in (1, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.onnx").write_bytes(content[:length])
        with pytest.raises(ValueError, check=about("path")):
            read_artifact(tmp_path / "cut.onnx")


def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a folder without saved_model"):
        read_artifact(tmp_path)
    with pytest.raises(FileNotFoundError, match="No artifact found"):
        read_artifact(tmp_path / "nothing.onnx")
    (tmp_path / "notes").write_text("a text")
    with pytest.raises(ValueError, match="a file of another format"):
        read_artifact(tmp_path / "notes")
    (tmp_path / "model.keras").write_text("a model")
    with pytest.raises(ValueError, match="to be exported first"):
        read_artifact(tmp_path / "model.keras")


def test_weights_in_a_folder_below_the_model_are_found(tmp_path: Path) -> None:
    model = _with_external_data(tmp_path, "weights/data.bin")
    assert artifact_files(model) == (model, tmp_path / "weights" / "data.bin")
    assert read_artifact(model).nbytes == model.stat().st_size + 4


@pytest.mark.parametrize("location", ["../data.bin", "weights/../../data.bin", "/etc/data.bin", "c:\\data.bin"])
def test_weights_outside_the_models_folder_are_refused(tmp_path: Path, location: str) -> None:
    model = _with_external_data(tmp_path, location)
    for read in (read_artifact, artifact_files):
        with pytest.raises(ValueError, match=r"m\.onnx.* names a file of weights outside its folder"):
            read(model)


@pytest.mark.parametrize("location", ["", ".", "./"])
def test_weights_in_no_file_are_refused_by_the_name_of_the_model(tmp_path: Path, location: str) -> None:
    model = _with_external_data(tmp_path, location)
    for read in (read_artifact, artifact_files):
        with pytest.raises(ValueError, match=r"m\.onnx.* names no file for its weights"):
            read(model)


def _with_external_data(folder: Path, location: str) -> Path:
    weight = onnx.TensorProto(name="w", dims=[1], data_type=onnx.TensorProto.FLOAT)
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    (folder / "weights").mkdir()
    (folder / "weights" / "data.bin").write_bytes(bytes(4))
    (folder / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return folder / "m.onnx"


@pytest.mark.slow
def test_the_saved_model_of_another_exporter_is_read_without_running_it_and_refused_if_it_is_not_whole(
    tmp_path: Path,
) -> None:
    _model().export(tmp_path / "model", verbose=False)
    artifact = read_artifact(tmp_path / "model")
    assert [(x.name, len(x.shape), x.shape[-1], x.dtype) for x in artifact.inputs] == [("values", 3, 8, "float32")]
    assert [(x.shape[-1], x.dtype) for x in artifact.outputs] == [(300, "float32")]
    file = tmp_path / "model" / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"has a saved_model\.pb that is not whole"):
        read_artifact(tmp_path / "model")


@pytest.mark.slow
def test_a_broken_description_is_refused(tmp_path: Path) -> None:
    artifact = export_saved_model(_model(), tmp_path / "model")
    for content in ("", "[]", '{"inputs": [{}]}', "{"):
        (artifact.path / "assets.extra" / "keras_pe.json").write_text(content)
        with pytest.raises(ValueError, match="has a description that cannot be read"):
            read_artifact(artifact.path)


@pytest.mark.slow
def test_a_litert_file_is_read_without_its_interpreter_whatever_it_holds(artifact: Any, tmp_path: Path) -> None:
    file = artifact(_model, "litert")
    read = read_artifact(file.path)
    assert ([x.name for x in read.inputs], [x.name for x in read.outputs]) == (["values"], ["out"])
    content = bytearray(file.path.read_bytes())
    rng = np.random.default_rng(0)
    for _ in range(50):
        broken = content.copy()
        for place in rng.integers(8, len(content), 40):
            broken[place] = rng.integers(256)
        (tmp_path / "broken.tflite").write_bytes(broken)
        with contextlib.suppress(ValueError):  # a changed byte of a weight is still a valid file
            read_artifact(tmp_path / "broken.tflite")
    (tmp_path / "cut.tflite").write_bytes(content[:100])
    with pytest.raises(ValueError, match="is not a whole LiteRT file"):
        read_artifact(tmp_path / "cut.tflite")
    code = f"import sys; from keras_pe.export import read_artifact; read_artifact({str(file.path)!r})"
    code += "; assert not {'tensorflow', 'keras', 'ai_edge_litert.interpreter'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_negative_size_of_another_exporter_is_free(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    shapes = [value(name, onnx.TensorProto.FLOAT, [-1, 4]) for name in "xy"]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", *([each] for each in shapes))), tmp_path / "m")
    assert read_artifact(tmp_path / "m").inputs[0].shape == ("x_axis_0", 4)
