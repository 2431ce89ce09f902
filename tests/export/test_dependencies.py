"""An export requires its packages by version where needed, under any installed name."""

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from keras_pe.export.dependencies import deferred_import, installed_version, require


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


def test_a_deferred_package_is_imported_when_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heavy.py").write_text("NUMBER = 3\ndef double(x): return 2 * x\n")
    (tmp_path / "user.py").write_text("import heavy\nTABLE = [heavy.double]\ndef triple(x): return x * heavy.NUMBER\n")
    monkeypatch.syspath_prepend(tmp_path)
    with deferred_import("heavy"):
        user = importlib.import_module("user")
    assert "heavy" not in sys.modules
    assert (user.TABLE[0](5), user.triple(5)) == (10, 15)
    with deferred_import("heavy"):
        assert importlib.import_module("heavy").NUMBER == 3


def test_the_passes_of_an_onnx_export_do_not_import_sympy() -> None:
    code = "import sys, keras_pe.export.onnx.finishing.passes; sys.exit('sympy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
