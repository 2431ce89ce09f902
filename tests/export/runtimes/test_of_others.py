"""A runtime that another package registers: the example of the documentation, installed."""

import importlib.metadata
import shlex
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_pe.export import export_onnx
from keras_pe.export.runtimes import registry
from keras_pe.export.runtimes.registry import ENTRY_POINTS, find_runtimes, known_runtimes
from tests.pages import blocks

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "own-runtime.md").read_text()
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_example_of_the_documentation_is_installed_and_checks_a_model(tmp_path: Path) -> None:
    files = [block.code for language in ("toml", "python") for block in blocks(PAGE, language)]
    names = [content.splitlines()[0].removeprefix("# ") for content in files]
    assert names == ["pyproject.toml", "ort_format.py"]
    assert len(files[1].splitlines()) <= 45
    for name, content in zip(names, files, strict=True):
        (tmp_path / name).write_text(content)
    (commands,) = blocks(PAGE, "sh")
    install, check = map(shlex.split, commands.code.splitlines())
    assert install == ["pip", "install", "."]
    place = tmp_path / "installed"
    options = ["-q", "--no-deps", "--no-build-isolation", "--target", place]
    subprocess.run([sys.executable, "-m", *install, *options], cwd=tmp_path, check=True)
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Activation("tanh", name="y")])
    model.save(tmp_path / "model.keras")
    export_onnx(model, tmp_path / "model.onnx")
    command = [sys.executable, "-m", check[0].replace("-", "_"), *check[1:]]
    path = f"{place}:{ROOT}"
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ort_format" in done.stdout


def register(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = importlib.metadata.EntryPoint("theirs", value, ENTRY_POINTS)
    monkeypatch.setattr(
        registry.importlib.metadata, "entry_points", lambda group: [entry] if group == ENTRY_POINTS else []
    )
    known_runtimes.cache_clear()


@pytest.fixture(autouse=True)
def forget() -> object:
    yield
    known_runtimes.cache_clear()


def test_a_package_that_does_not_load_is_named_where_it_is_asked_for_and_harms_no_other(monkeypatch):
    register(monkeypatch, "no_such_module:SPEC")
    with pytest.raises(
        ImportError, match=r"'theirs' needs the package 'no_such_module', which does not load: ModuleNotF"
    ):
        find_runtimes(["theirs"])
    assert find_runtimes(["onnxruntime[all]"])
    assert "theirs" not in {spec.name for spec in registry.default_runtimes()}


def test_an_entry_point_of_something_else_is_refused(monkeypatch):
    register(monkeypatch, "numpy:pi")
    with pytest.raises(ImportError, match=rf"must be a RuntimeSpec\. Received: {np.pi}"):
        find_runtimes(["theirs"])
