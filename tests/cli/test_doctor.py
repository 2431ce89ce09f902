"""`keras-pe doctor` from the outside."""

import importlib.metadata

import pytest
from click.testing import CliRunner

from keras_pe.cli import main


def test_every_version_is_shown_and_a_complete_installation_is_well() -> None:
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    for package in ("keras", "tensorflow", "onnxruntime"):
        assert importlib.metadata.version(package) in result.output


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.metadata.version

    def without_tf2onnx(package: str) -> str:
        if package == "tf2onnx":
            raise importlib.metadata.PackageNotFoundError
        return version(package)

    monkeypatch.setattr(importlib.metadata, "version", without_tf2onnx)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "pip install 'keras-pe[export]'" in result.output


def test_another_version_is_called_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "99.1")
    assert "not tried" in CliRunner().invoke(main, ["doctor"]).output
