"""The house: which package may import which, what a wheel holds, and what an import costs."""

import ast
import configparser
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Left never imports right. A module belongs to the longest name that it starts with.
ORDER = (
    (
        "keras_pe.version",
        "keras_pe.palette",
        "keras_pe.timescales",
        "keras_pe.layouts",
        "keras_pe.signal",
        "keras_pe.registration",
        "keras_pe.lazy",
        "keras_pe",
    ),
    ("keras_pe.rotations",),
    ("keras_pe.layers",),
    ("keras_pe.tensor2tensor", "keras_pe.conventions", "keras_pe.plots", "keras_pe.shifts", "keras_pe.masks"),
    ("keras_pe.export",),
    ("keras_pe.export.runtimes",),
    ("keras_pe.export.smoke_test", "keras_pe.export.onnx", "keras_pe.export.saved_model", "keras_pe.export.litert"),
    ("keras_pe.export.parity",),
    ("keras_pe.demo",),
    ("keras_pe.cli", "keras_pe.__main__"),
)
RANKS = {name: rank for rank, names in enumerate(ORDER) for name in names}


def modules() -> dict[str, Path]:
    """Returns every module of the two folders, by import name."""
    found = {}
    for folder, name in ((ROOT / "keras_pe", "keras_pe"), (ROOT / "export", "keras_pe.export")):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            if folder.name == "keras_pe" and parts[0] == "export":
                continue
            found[".".join([name, *parts]).removesuffix(".__init__")] = path
    return found


def imports(path: Path) -> set[str]:
    """Returns the modules of this project that a file imports, also inside functions; names for type checkers aside."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found & set(modules()) if name.startswith("keras_pe")}


def rank(module: str) -> int:
    """Returns the place of the longest listed name that the module's name starts with."""
    parts = module.split(".")
    prefixes = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next(RANKS[prefix] for prefix in prefixes if prefix in RANKS)


def test_imports_go_from_right_to_left() -> None:
    known = modules()
    assert len(known) > 40
    wrong = [
        f"{name} imports {imported}"
        for name, path in known.items()
        for imported in imports(path)
        if imported != "keras_pe" and rank(imported) > rank(name) and name != "keras_pe"
    ]
    assert not wrong


def test_parity_knows_no_exporter_and_no_exporter_knows_parity() -> None:
    exporters = (
        "keras_pe.export.onnx",
        "keras_pe.export.saved_model",
        "keras_pe.export.litert",
        "keras_pe.export.graph.tracing",
    )
    judges = ("keras_pe.export.parity", "keras_pe.export.runtimes")
    for name, path in modules().items():
        if name.startswith(judges):
            assert not {each for each in imports(path) if each.startswith(exporters)}, name
        if name.startswith(exporters):
            assert not {each for each in imports(path) if each.startswith("keras_pe.export.parity")}, name


def test_only_the_command_line_prints_or_exits() -> None:
    for name, path in modules().items():
        if name.startswith(("keras_pe.cli", "keras_pe.__main__")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in ("print", "exit", "sys.exit", "quit"), f"{name}:{node.lineno}"


def test_the_package_list_is_what_is_on_disk() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    on_disk = [name for name, path in modules().items() if path.name == "__init__.py"]
    assert sorted(listed) == sorted(on_disk)


def test_the_export_package_is_a_link_to_the_top_level_folder() -> None:
    link = ROOT / "keras_pe" / "export"
    assert link.is_symlink()
    assert link.readlink() == Path("../export")


@pytest.mark.slow
def test_a_wheel_holds_every_module_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist")]
    source = tmp_path / "source"
    subprocess.run(["git", "clone", "-q", ROOT, source], check=True)
    subprocess.run([*command, source], check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    tracked = subprocess.run(
        ["git", "ls-files", "keras_pe", "export"], cwd=source, check=True, capture_output=True, text=True
    ).stdout.split()
    expected = [
        name if name.startswith("keras_pe/") else f"keras_pe/{name}" for name in tracked if name != "keras_pe/export"
    ]
    assert Counter(names) == Counter(expected)


def test_the_command_line_says_what_it_lacks() -> None:
    code = "import sys; sys.modules['rich'] = None; from keras_pe.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "keras-pe needs the package 'rich'. Install it with: pip install 'keras-pe[cli]'\n"


RUN = (
    "from click.testing import CliRunner; from keras_pe.cli import main; "
    "assert CliRunner().invoke(main, {}).exit_code == {}"
)


@pytest.mark.parametrize(
    "code",
    [
        "import keras_pe; keras_pe.timing_signal([0], 4)",
        "import keras_pe.export.parity",
        "import keras_pe.export.parity.pytest_plugin",
        RUN.format(["--help"], 0),
        RUN.format(["check", "missing.keras", "missing.onnx"], 2),
        RUN.format(["export", "missing.keras", "out.onnx"], 2),
    ],
)
def test_what_needs_no_runtime_imports_none(code: str) -> None:
    heavy = "keras", "tensorflow", "jax", "torch", "onnx", "onnxruntime", "tf2onnx", "matplotlib", "jinja2"
    check = f"import sys; loaded = set({heavy}) & set(sys.modules); assert not loaded, loaded"
    subprocess.run([sys.executable, "-c", f"{code}; {check}"], check=True, cwd=ROOT)
