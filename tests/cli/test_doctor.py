"""`keras-pe doctor` from the outside."""

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from keras_pe.cli import main
from keras_pe.tried_versions import tried_versions


@pytest.fixture(autouse=True)
def keras_as_it_comes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delitem(sys.modules, "keras", raising=False)  # a Keras that runs says itself what its backend is


def doctor(*options: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *options])


def without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    """Lets the installation look as if some packages were not there, and JAX were."""
    version = importlib.metadata.version

    def look_up(package: str) -> str:
        if package in missing:
            raise importlib.metadata.PackageNotFoundError
        return "0.10.2" if package == "jax" else version(package)

    monkeypatch.setattr(importlib.metadata, "version", look_up)


def test_every_version_is_shown_and_a_complete_installation_is_well() -> None:
    result = doctor()
    assert result.exit_code == 0
    for package in ("keras", "tensorflow", "onnxruntime"):
        assert importlib.metadata.version(package) in result.output


def test_tried_versions_are_read_from_the_table() -> None:
    lines = {line.split("│")[1].strip(): line for line in doctor().output.splitlines() if "│" in line}
    for row in tried_versions():
        for version in row.tried:
            assert ".".join(version.split(".")[:2]) in lines[row.name]


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "tf2onnx")
    result = doctor()
    assert result.exit_code == 1
    assert "pip install 'keras-pe[export]' (needed)" in result.output


def test_json_has_each_package_and_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "tf2onnx")
    result = doctor("--json")
    report = json.loads(result.output)
    packages = {each["name"]: each for each in report["packages"]}
    assert (result.exit_code, report["is_complete"], report["backend"]) == (1, False, "tensorflow")
    assert packages["tf2onnx"] | {"tried": [], "remark": ""} == {
        "name": "tf2onnx",
        "found": None,
        "tried": [],
        "is_needed": True,
        "remark": "",
    }
    assert packages["keras"]["found"] == importlib.metadata.version("keras")


@pytest.mark.slow
@pytest.mark.parametrize("says", ["the environment", "keras.json"])
def test_on_jax_nothing_of_tensorflow_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str) -> None:
    if says == "keras.json":
        (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    else:
        monkeypatch.setenv("KERAS_BACKEND", "jax")
    without(monkeypatch, "tensorflow", "tf2onnx", "onnx", "onnxruntime")
    assert doctor().exit_code == 0
    without(monkeypatch, "tensorflow", "keras")
    assert doctor().exit_code == 1


def test_without_any_backend_said_tensorflow_is_needed_and_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "tensorflow")
    result = doctor()
    assert result.exit_code == 1
    assert "set KERAS_BACKEND" in result.output


def test_a_backend_that_keras_has_not_is_told_and_none_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "tensorfow")
    result = doctor()
    assert result.exit_code == 1
    assert "set KERAS_BACKEND to one of tensorflow, jax, torch" in " ".join(result.output.split())
    monkeypatch.setenv("KERAS_BACKEND", "")
    assert "Keras is set to the backend 'tensorflow'." in doctor().output


def test_another_version_is_called_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "99.1")
    assert "not tried" in doctor().output
