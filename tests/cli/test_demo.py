"""`keras-pe demo` where it cannot be tried."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from keras_pe.cli import main


def test_a_folder_that_cannot_be_made_is_a_sentence_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["demo", str(tmp_path / "file" / "folder")])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert "Not a directory" in result.stderr


def test_a_missing_package_is_reported_with_its_command_before_a_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    done = CliRunner().invoke(main, ["demo", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "needs the package 'tf2onnx'. Install it with: pip install 'keras-pe[demo]'" in done.output
    assert not (tmp_path / "out").exists()
