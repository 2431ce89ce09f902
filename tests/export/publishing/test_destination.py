"""Only an artifact of the same format is overwritten."""

import os
from pathlib import Path

import keras
import pytest

from keras_pe.export import Format, export_onnx, export_saved_model
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.staging import staged_file


def _model() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


@pytest.mark.slow
def test_an_artifact_of_the_same_format_is_replaced(tmp_path: Path) -> None:
    for format, path in (
        (Format.ONNX, export_onnx(_model(), tmp_path / "m.onnx").path),
        (Format.SAVED_MODEL, export_saved_model(_model(), tmp_path / "model").path),
    ):
        assert check_destination(path, format) == path
    (tmp_path / "empty").mkdir()
    assert check_destination(tmp_path / "empty", Format.SAVED_MODEL) == tmp_path / "empty"


@pytest.mark.slow
def test_a_file_of_another_format_is_not(tmp_path: Path) -> None:
    folder = export_saved_model(_model(), tmp_path / "model").path
    for path, format in (
        (folder / "saved_model.pb", Format.ONNX),  # begins like an ONNX file
        (folder, Format.ONNX),
        (export_onnx(_model(), tmp_path / "m").path, Format.LITERT),
        (tmp_path / "m", Format.SAVED_MODEL),
        (tmp_path, Format.SAVED_MODEL),
    ):
        with pytest.raises(FileExistsError, match="which is neither"):
            check_destination(path, format)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["notes.txt", "assets.extra/mine.json", "variables/mine.npz", "data/train.csv"])
def test_a_folder_with_anything_but_a_saved_model_is_not(tmp_path: Path, name: str) -> None:
    folder = export_saved_model(_model(), tmp_path / "model").path
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    with pytest.raises(FileExistsError, match=f"which also has '{name}'"):
        export_saved_model(_model(), folder)
    assert (folder / name).read_text() == "mine"


def test_a_destination_within_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a text")
    with pytest.raises(NotADirectoryError, match="is a file"):
        check_destination(tmp_path / "file" / "m.onnx", Format.ONNX)


@pytest.mark.parametrize("format", list(Format))
@pytest.mark.parametrize("content", [b"", b"my notes", None])
def test_another_file_is_never_overwritten(tmp_path: Path, format: Format, content: bytes | None) -> None:
    place = tmp_path / "precious"
    if content is None:
        place.mkdir()
        (place / "thesis.txt").write_text("years")
    else:
        place.write_bytes(content)
    with pytest.raises(FileExistsError, match="which is neither"):
        check_destination(place, format)


@pytest.mark.parametrize(
    ("name", "format", "named"),
    [
        ("m.tflite", Format.ONNX, "LiteRT"),
        ("m.onnx", Format.LITERT, "ONNX"),
        ("m.onnx", Format.SAVED_MODEL, "ONNX"),
        ("m.keras", Format.ONNX, "Keras"),
    ],
)
def test_a_name_that_says_another_format_is_refused(tmp_path: Path, name: str, format: Format, named: str) -> None:
    with pytest.raises(ValueError, match=rf"than '{format}'. Received: .*{name}', a name of {named} files"):
        check_destination(tmp_path / name, format)


@pytest.mark.parametrize("format", list(Format))
@pytest.mark.parametrize("name", ["m", "m.pb", "encoder-1.5"])
def test_a_name_that_says_no_format_is_taken(tmp_path: Path, name: str, format: Format) -> None:
    """The requested export reports the fault before."""
    assert check_destination(tmp_path / name, format) == tmp_path / name


@pytest.mark.parametrize("name", ["run[1]/model", "a*", "b?", "c\\d"])
def test_a_path_that_tensorflow_reads_as_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    assert check_destination(tmp_path / name, Format.ONNX) == tmp_path / name
    for format in (Format.SAVED_MODEL, Format.LITERT):
        with pytest.raises(ValueError, match="pattern"):
            check_destination(tmp_path / name, format)


@pytest.mark.parametrize("format", list(Format))
def test_a_path_that_is_not_utf8_is_refused(tmp_path: Path, format: Format) -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        check_destination(tmp_path / os.fsdecode(b"latin-\xfc"), format)


@pytest.mark.parametrize("format", list(Format))
@pytest.mark.parametrize("leads_to", ["nowhere", "a file", "a folder"])
def test_a_link_is_refused_and_stays(tmp_path: Path, format: Format, leads_to: str) -> None:
    target = tmp_path / "v1"
    if leads_to == "a file":
        target.write_bytes(b"")
    elif leads_to == "a folder":
        target.mkdir()
    link = tmp_path / "m"
    link.symlink_to(target)
    with pytest.raises(FileExistsError, match=f"must not be a link.*{target}"):
        check_destination(link, format)
    assert link.is_symlink()


def test_a_report_is_written_to_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "report.md").symlink_to(tmp_path / "runs" / "7.md")
    for content in ("first", "second"):
        with staged_file(tmp_path / "report.md", "The report") as part:
            part.write_text(content)
        assert (tmp_path / "report.md").is_symlink()
        assert (tmp_path / "runs" / "7.md").read_text() == content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_report_does_not_replace_a_pipe_or_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "report.md").symlink_to(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="a pipe or a device"), staged_file(tmp_path / "report.md", "The report"):
        pass
    assert (tmp_path / "pipe").is_fifo()
