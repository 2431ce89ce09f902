"""A format is detected from the content, wherever the file is and whatever its name is."""

import shutil
from pathlib import Path

import keras
import pytest

from keras_pe.export import Format, export_litert, export_onnx, export_saved_model


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[Format, Path]:
    folder = tmp_path_factory.mktemp("made")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    return {
        Format.ONNX: export_onnx(model, folder / "a").path,
        Format.SAVED_MODEL: export_saved_model(model, folder / "b").path.rename(folder / "b.onnx"),
        Format.LITERT: export_litert(model, folder / "c").path.rename(folder / "c.keras"),
    }


@pytest.mark.slow
def test_each_format_is_told_whatever_it_is_called(made: dict[Format, Path]) -> None:
    assert {format: Format.detect(path) for format, path in made.items()} == {format: format for format in Format}


def test_another_file_has_no_format(made: dict[Format, Path], tmp_path: Path) -> None:
    for name, content in {"empty": b"", "byte": b"\x08", "text": b"\x08\x01 a text", "zip": b"PK\x03\x04"}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "cut").write_bytes(made[Format.ONNX].read_bytes()[:-1])
    shutil.copy(made[Format.SAVED_MODEL] / "saved_model.pb", tmp_path / "protobuf")
    (tmp_path / "folder").mkdir()
    for name in ("empty", "byte", "text", "zip", "cut", "protobuf", "folder", "missing"):
        assert Format.detect(tmp_path / name) is None, name


def test_a_name_says_the_format_of_a_file_that_is_yet_to_be_written() -> None:
    assert Format.from_suffix("m.onnx") is Format.ONNX
    assert Format.from_suffix("m.tflite") is Format.LITERT
    assert Format.from_suffix("m") is None


def test_a_format_equals_the_name_that_keras_has_for_it() -> None:
    assert sorted(Format) == ["litert", "onnx", "tf_saved_model"]
    assert f"{Format.ONNX}" == "onnx"
