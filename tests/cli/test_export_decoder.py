"""`keras-pe export-decoder` from the outside: the folder that it writes, and its exit codes."""

import json
from pathlib import Path

import keras
import pytest
from click.testing import CliRunner, Result

from keras_pe.cli import main
from tests.export.decoders.small_decoders import language_model, own_decoder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["export-decoder", *map(str, arguments)])


@pytest.mark.slow
def test_a_decoder_is_written_with_its_tokens_and_passes_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own_decoder().save("decoder.keras")
    done = run("decoder.keras", "decoder", "--end-token", 2, "--end-token", 3, "--context-length", 64, "--json")
    assert done.exit_code == 0, done.output
    (written,) = json.loads(done.stdout)
    assert Path(written["path"]) == tmp_path / "decoder" / "model.onnx"
    model = json.loads(Path("decoder/genai_config.json").read_text())["model"]
    assert (model["eos_token_id"], model["bos_token_id"], model["context_length"]) == ([2, 3], 2, 64)
    checked = CliRunner().invoke(main, ["check", "decoder.keras", "decoder/model.onnx"])
    assert checked.exit_code == 0, checked.output


def test_a_model_that_is_no_decoder_or_has_no_end_token_ends_with_2(tmp_path: Path) -> None:
    dense, decoder, out = tmp_path / "dense.keras", tmp_path / "decoder.keras", tmp_path / "out"
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="dense").save(dense)
    own_decoder().save(decoder)
    for model, options, named in [
        (dense, (), "MODEL"),
        (decoder, (), "--end-token"),
        (decoder, ("--end-token", -1), "--end-token"),
        (decoder, ("--end-token", 0, "--context-length", 0), "--context-length"),
    ]:
        done = run(model, out, *options)
        assert (done.exit_code, named in done.stderr) == (2, True), done.output
    assert not out.exists()


@pytest.mark.slow
def test_both_files_of_a_model_with_an_encoder_are_printed(tmp_path: Path) -> None:
    language_model("Bart").save(tmp_path / "bart.keras")
    done = run(tmp_path / "bart.keras", tmp_path / "bart", "--import", "keras_hub", "--quiet")
    assert done.exit_code == 0, done.output
    assert done.stdout.split() == [str(tmp_path / "bart" / name) for name in ("encoder.onnx", "decoder.onnx")]
