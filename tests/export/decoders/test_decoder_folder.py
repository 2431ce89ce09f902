"""The folder of a decoder is replaced as a whole, and files of others stay in it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_pe.export import export_decoder, generate
from keras_pe.export.decoders.tokenizer_files import TOKENIZER_FILES
from tests.export.decoders.small_decoders import own_decoder
from tests.raised import about

_OTHERS = ("model.onnx.sha256", "model.onnx.bak", "model.onnx.0123.data", "model.onnx_data", "other_tokenizer.json")


@pytest.mark.slow
def test_an_interrupted_export_leaves_the_previous_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "decoder"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("of the user")
    (folder / "model.onnx.0123456789abcdef.data").write_text("weights of an earlier export")
    for name in _OTHERS:
        (folder / name).write_text("of the user")
    (folder / "inner").mkdir()
    (folder / "inner" / "model.onnx").symlink_to("nowhere")

    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    before = state()
    with monkeypatch.context() as patched:
        patched.setattr("keras_pe.export.decoders.decoder_folder.genai_config", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            export_decoder(own_decoder(), folder, end_tokens=[0])
        assert state() == before
        with pytest.raises(KeyboardInterrupt):
            export_decoder(own_decoder(), tmp_path / "new", end_tokens=[0])
    assert [path.name for path in tmp_path.iterdir()] == ["decoder"]
    (folder / "tokenizer.json").chmod(0o400)
    (tmp_path / "link").symlink_to(folder)
    artifact = export_decoder(own_decoder(), tmp_path / "link", end_tokens=[0])
    assert artifact.path == tmp_path / "link" / "model.onnx"
    assert (tmp_path / "link").is_symlink()
    assert len(generate(artifact, [1], count=3)[0]) == 3
    (weights,) = folder.glob(f"model.onnx.{'?' * 16}.data")
    assert {*state()} == {"model.onnx", weights.name, "genai_config.json", "tokenizer.json", *_OTHERS}
    assert {(folder / name).read_text() for name in ("tokenizer.json", *_OTHERS)} == {"of the user"}
    assert weights.name not in before
    assert (folder / "inner" / "model.onnx").is_symlink()


@pytest.mark.slow
def test_the_files_of_an_earlier_tokenizer_are_removed_for_a_model_with_a_tokenizer(tmp_path: Path) -> None:
    for name in (*TOKENIZER_FILES, *_OTHERS):
        (tmp_path / name).write_text("of an earlier model")
    model = own_decoder()
    model.preprocessor = SimpleNamespace(tokenizer=SimpleNamespace(merges=["a b"], end_token_id=0))
    export_decoder(model, tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & {*TOKENIZER_FILES}
    assert {*_OTHERS} < left


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_folder_with_something_else_as_its_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("something else")
    with pytest.raises(FileExistsError):
        export_decoder(own_decoder(), tmp_path, end_tokens=[0])


def test_the_working_folder_and_the_folders_around_it_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    for folder in (".", "..", "/"):
        with pytest.raises(ValueError, check=about("folder")):
            export_decoder(own_decoder(), folder, end_tokens=[0])


@pytest.mark.slow
def test_files_of_a_model_with_an_encoder_stay_beside_a_decoder_without_one(tmp_path: Path) -> None:
    own = [tmp_path / name for name in ("encoder.onnx", "decoder.onnx")]
    for file in own:
        file.write_text("of the user")
    export_decoder(own_decoder(), tmp_path, end_tokens=[0])
    assert [file.read_text() for file in own] == ["of the user"] * 2
    assert (tmp_path / "model.onnx").is_file()
