"""A file that holds no model is told at once, without Keras."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["export", "model.keras", "out.onnx"], ["check", "model.keras", "model.keras"]])
def test_a_file_that_is_no_model_is_named_without_importing_keras(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "model.keras").write_text("no model")
    code = (
        "import sys; from keras_pe.cli import main\n"
        f"try: main({arguments})\n"
        "except SystemExit as done: print(done.code, sorted({'keras', 'tensorflow'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path}\n{code}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "2 []\n"
    assert "model.keras could not be loaded: it is no .keras file" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["export", "model.keras", "out.onnx"], ["check", "model.keras", "same.onnx"]])
def test_a_module_that_ends_the_process_is_a_sentence(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(3)")
    (tmp_path / "same.onnx").touch()
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as file:
        file.writestr("config.json", "{}")
    command = [sys.executable, "-m", "keras_pe", *arguments, "--import", "leaves"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "Error: --import leaves failed: SystemExit: 3\n")


def test_another_suffix_is_told_with_the_rule(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no model")
    command = [sys.executable, "-m", "keras_pe", "export", str(tmp_path / "notes.txt"), str(tmp_path / "out.onnx")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 2
    assert "MODEL must be a .keras, .h5, .hdf5 file. Received:" in done.stderr
