"""An export requires its packages by version where needed, under any installed name."""

import importlib.metadata

import pytest

from keras_pe.export.dependencies import installed_version, require


def test_an_older_keras_is_refused_with_the_version_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", {"keras": "3.12.1"}.__getitem__)
    with pytest.raises(
        ImportError, match=r"export_onnx\(\) needs keras 3\.13 or later\. Received: keras 3\.12\.1\. Install"
    ):
        require("export_onnx", "keras")


def test_a_package_is_found_under_the_name_of_another_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str) -> str:
        if name != "tensorflow_cpu":
            raise importlib.metadata.PackageNotFoundError(name)
        return "2.21.0"

    monkeypatch.setattr(importlib.metadata, "version", look_up)
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: {"tensorflow": ["tensorflow_cpu"]})
    assert installed_version("tensorflow") == "2.21.0"
    assert installed_version("onnx") is None
