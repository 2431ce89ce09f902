"""`keras-pe demo` where it cannot be tried."""

from pathlib import Path

from click.testing import CliRunner

from keras_pe.cli import main


def test_a_folder_that_cannot_be_made_is_a_sentence_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["demo", str(tmp_path / "file" / "folder")])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert "Not a directory" in result.stderr
