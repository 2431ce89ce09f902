"""Keras and the other heavy packages are imported where they are needed, without a word, and nowhere else."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.source_tree import ROOT

CODE = """
import gc, importlib.util, sys
from keras_pe.cli.start_keras import start_keras

start_keras()
unused = [name for name in ("IPython", "matplotlib", "pandas") if name in sys.modules]
print(unused, importlib.util.find_spec("matplotlib") is not None, gc.isenabled(), gc.get_freeze_count() > 100_000)
frozen = gc.get_freeze_count()
start_keras()
print(gc.get_freeze_count() == frozen)
"""


@pytest.mark.slow
def test_it_imports_what_is_needed_and_leaves_the_rest_to_those_who_ask():
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.stdout.split("\n")[:2] == ["[] True True True", "True"]
    assert done.stderr == ""


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
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "MODEL must be a .keras, .h5, .hdf5 file. Received:" in done.stderr


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("raise MemoryError", "memory ran out"),
        ("raise ImportError('libx.so: failed to map segment from shared object')", "memory ran out"),
        ("raise AttributeError('partially initialized module')", "AttributeError: partially initialized"),
        ("raise ImportError('no backend')", "no backend"),
    ],
)
def test_a_keras_that_does_not_start_is_a_sentence(tmp_path: Path, raised: str, told: str) -> None:
    (tmp_path / "keras.py").write_text(raised)
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as file:
        file.writestr("config.json", "{}")
    command = [sys.executable, "-m", "keras_pe", "export", "model.keras", "out.onnx"]
    places = [str(tmp_path), str(ROOT), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert told in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_an_import_that_fails_where_memory_is_short_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "keras.py").write_text(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**27, -1))\nraise AttributeError('partially')"
    )
    code = "from keras_pe.cli.start_keras import start_keras; start_keras()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "ImportError: Keras could not be started: memory ran out" in done.stderr


def test_the_command_line_names_a_package_that_it_lacks() -> None:
    code = "import sys; sys.modules['rich'] = None; from keras_pe.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "keras-pe needs the package 'rich'. Install it with: pip install 'keras-pe[cli]'\n"


COMMAND = (
    "from click.testing import CliRunner; from keras_pe.cli import main; "
    "assert CliRunner().invoke(main, {}).exit_code == {}"
)
LIGHT = [
    "import keras_pe; dir(keras_pe); keras_pe.timing_signal([0], 4)",
    "import keras_pe.export as package; dir(package)",
    "import keras_pe.export.records as package; dir(package)",
    "import keras_pe.export.runtimes as package; dir(package)",
    "import keras_pe.export.parity",
    "from keras_pe.export import check_dataset, check_parity, export_onnx",
    "import keras_pe.export.parity.pytest_plugin",
    COMMAND.format(["--help"], 0),
    COMMAND.format(["check", "missing.keras", "missing.onnx"], 2),
    COMMAND.format(["export", "missing.keras", "out.onnx"], 2),
    COMMAND.format(["export", "README.md", "out.onnx"], 2),
    COMMAND.format(["plot", "heatmap", "picture.gif"], 2),
    COMMAND.format(["identify", "README.md"], 2),
]


def test_no_heavy_package_is_imported_without_need() -> None:
    """One process runs all: the first code after which a heavy package is loaded is the culprit."""
    heavy = "keras", "tensorflow", "jax", "torch", "onnx", "onnxruntime", "tf2onnx", "matplotlib", "jinja2"
    program = f"import sys\nfor code in {LIGHT}:\n    exec(code)\n    assert not set({heavy}) & set(sys.modules), code"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
