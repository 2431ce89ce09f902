"""An artifact read back from disk says what its export said."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import keras
import onnx
import pytest

from keras_pe.export import export_onnx, open_artifact
from keras_pe.export.onnx.reading import read_without_weights


def _model() -> keras.Model:
    return keras.Sequential([keras.Input((None, 8), name="values"), keras.layers.Dense(300, name="out")])


@pytest.mark.parametrize("threshold", [0, 2**20])
def test_an_onnx_file_is_read_back_as_it_was_returned(tmp_path: Path, threshold: int) -> None:
    artifact = export_onnx(_model(), tmp_path / "m.onnx", external_data_threshold=threshold)
    assert replace(open_artifact(artifact.path), seconds=artifact.seconds) == artifact


def test_an_onnx_file_is_read_without_tensorflow(tmp_path: Path) -> None:
    artifact = export_onnx(_model(), tmp_path / "m.onnx")
    code = f"import sys; from keras_pe.export import open_artifact; print(open_artifact({str(artifact.path)!r}).inputs)"
    code += "; assert not {'tensorflow', 'keras'} & set(sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "'batch', 'length', 8" in found.stdout


def test_the_weights_stay_on_disk_but_their_places_are_known(tmp_path: Path) -> None:
    artifact = export_onnx(_model(), tmp_path / "m.onnx")
    whole, light = onnx.load(artifact.path), read_without_weights(artifact.path)
    assert len(light.SerializeToString()) < 4000 < artifact.size
    content = artifact.path.read_bytes()
    for tensor, reference in zip(whole.graph.initializer, light.graph.initializer, strict=True):
        places = {entry.key: entry.value for entry in reference.external_data}
        if places:
            offset, length = int(places["offset"]), int(places["length"])
            assert content[offset : offset + length] == tensor.raw_data


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    content = export_onnx(_model(), tmp_path / "m.onnx").path.read_bytes()
    for length in (1, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.onnx").write_bytes(content[:length])
        with pytest.raises(ValueError, match="`path` must be an artifact"):
            open_artifact(tmp_path / "cut.onnx")


def test_what_is_no_artifact_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a folder without saved_model"):
        open_artifact(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no artifact"):
        open_artifact(tmp_path / "nothing.onnx")
