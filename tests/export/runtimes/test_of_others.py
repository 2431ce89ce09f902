"""A runtime that another package registers: the example of the documentation, installed."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from keras_pe.export.runtimes import registry
from keras_pe.export.runtimes.registry import ENTRY_POINTS, find_runtimes, known_runtimes

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "own-runtime.md").read_text()
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_example_of_the_documentation_is_installed_and_checks_a_model(tmp_path: Path) -> None:
    files = re.findall(r"^```(?:toml|python)\n# (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in files] == ["pyproject.toml", "ort_format.py"]
    assert len(files[1][1].splitlines()) <= 45
    for name, content in files:
        (tmp_path / name).write_text(content)
    place = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", place]
    subprocess.run([*command, tmp_path], check=True)
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "graph", tensors[:1], tensors[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    check = [sys.executable, "-m", "keras_pe", "check", "model.onnx", "model.onnx", "--runtime", "ort_format"]
    path = f"{place}:{ROOT}"
    done = subprocess.run(check, cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True)
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
