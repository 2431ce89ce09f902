"""The structure: rules about values and names that no linter has, the content of a wheel, and the cost of an import.

pyproject.toml has the rules about imports, private names and prints, for import-linter and ruff.
"""

import ast
import configparser
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.source_tree import ROOT, modules, nodes

# Modules that replace names of other packages: their entry points.
REPLACING = (
    "keras_pe.cli.standard_streams",
    "keras_pe.export.graph.tensorflow_internals",
    "keras_pe.export.model.watch.keras_internals",
    "keras_pe.export.onnx.tf2onnx_calls",
    "keras_pe.export.onnx.tf2onnx_repairs",
    "keras_pe.export.processes.foreign_code",
)


def find_faults(is_fault: Callable[[ast.AST], object], but: str | tuple[str, ...] = (), inside: str = "") -> list[str]:
    """Returns the places of faulty code, with the code, in modules that begin with `inside` and not with `but`."""
    return [
        f"{name}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for name, path in modules().items()
        if name.startswith(inside) and not name.startswith(but)
        for node in nodes(path)
        if is_fault(node)
    ]


def calls(node: ast.AST, *functions: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in functions


def test_the_name_of_a_runtime_is_taken_apart_in_one_module() -> None:
    methods = ("partition", "rpartition", "split", "find", "index", "removesuffix", "startswith")

    def takes_apart(node: ast.AST) -> bool:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods):
            return False
        return any(isinstance(each, ast.Constant) and each.value in ("[", "]", "@") for each in node.args[:1])

    assert not find_faults(takes_apart, but="keras_pe.export.runtimes.runtime")
    assert find_faults(takes_apart)


def test_names_of_other_packages_are_replaced_in_few_modules() -> None:
    imported = {
        path: {
            (alias.asname or alias.name).partition(".")[0]
            for node in nodes(path)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for path in modules().values()
    }
    owners = {id(node): path for path in modules().values() for node in nodes(path)}

    def replaces(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            return ast.unparse(node.value).partition(".")[0] in imported[owners[id(node)]]
        return calls(node, "setattr", "delattr") and ast.unparse(node.args[0]) != "self"

    assert not find_faults(replaces, but=REPLACING)
    assert find_faults(replaces)


# Values with fields become text once, in a report: no other code parses the text.
FIELDS = {"cause", "problem", "status", "evidence", "error", "runtime", "version"}
READING = {"startswith", "endswith", "partition", "rpartition", "split", "replace", "find"}


def reads_a_sentence(node: ast.AST) -> bool:
    """Whether code compares such a field with a text, looks for a text in it, or takes it apart."""

    def is_field(each: ast.AST) -> bool:
        return isinstance(each, ast.Attribute) and each.attr in FIELDS

    def is_text(each: ast.AST) -> bool:
        if isinstance(each, ast.Tuple | ast.Set | ast.List):
            return any(map(is_text, each.elts))
        return isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and each.value not in ("", None))

    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        return any(map(is_field, sides)) and any(map(is_text, sides))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in READING and is_field(node.func.value)
    return False


def test_no_logic_reads_a_sentence() -> None:
    assert not find_faults(reads_a_sentence)


# Files in which these words name dimensions, or parts of ONNX and JSON.
DIMENSIONS = "keras_pe.export.model.sizes.dimensions"
OTHERS = tuple(f"keras_pe.export.{name}" for name in ("artifacts.onnx_model", "onnx.file_writer", "parity.statistics"))


def test_names_of_dimensions_stand_in_one_place() -> None:
    errors = [node for path in modules().values() for node in nodes(path) if calls(node, "ArgValueError")]
    arguments = {node.args[0] for node in errors}

    def is_name(node: ast.AST) -> bool:
        return isinstance(node, ast.Constant) and node.value in ("batch", "length") and node not in arguments

    assert not find_faults(is_name, but=(DIMENSIONS, *OTHERS), inside="keras_pe.export")


def test_only_runtimes_are_described_as_runtimes() -> None:
    described = find_faults(lambda node: calls(node, "RuntimeSpec"), but="keras_pe.export.runtimes")
    assert described == []


def test_setup_lists_the_folders_on_disk() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    folders = [name for name, path in modules().items() if path.name == "__init__.py"]
    assert sorted(config["options"]["packages"].split()) == sorted(folders)
    assert (ROOT / "keras_pe" / "export").readlink() == Path("../export")


@pytest.mark.slow
def test_a_wheel_has_every_module_once(tmp_path: Path) -> None:
    source, built = tmp_path / "source", tmp_path / "dist"
    subprocess.run(["git", "clone", "-q", ROOT, source], check=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", built, source]  # by way of the sdist
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    listed = ["git", "ls-files", "keras_pe", "export"]
    tracked = subprocess.run(listed, cwd=source, check=True, capture_output=True, text=True).stdout.split()
    tracked.remove("keras_pe/export")
    assert Counter(names) == Counter(f"keras_pe/{name.removeprefix('keras_pe/')}" for name in tracked)


def test_the_command_line_says_what_it_lacks() -> None:
    code = "import sys; sys.modules['rich'] = None; from keras_pe.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "keras-pe needs the package 'rich'. Install it with: pip install 'keras-pe[cli]'\n"


RUN = (
    "from click.testing import CliRunner; from keras_pe.cli import main; "
    "assert CliRunner().invoke(main, {}).exit_code == {}"
)


CLEAN = [
    "import keras_pe; keras_pe.timing_signal([0], 4)",
    "import keras_pe.export.parity",
    "from keras_pe.export import check_dataset, check_parity, export_onnx",
    "import keras_pe.export.parity.pytest_plugin",
    RUN.format(["--help"], 0),
    RUN.format(["check", "missing.keras", "missing.onnx"], 2),
    RUN.format(["export", "missing.keras", "out.onnx"], 2),
    RUN.format(["export", "README.md", "out.onnx"], 2),
    RUN.format(["plot", "heatmap", "picture.gif"], 2),
    RUN.format(["identify", "README.md"], 2),
]


def test_no_runtime_is_imported_without_need() -> None:
    """One process runs all: the first code after which a heavy package is loaded is the culprit."""
    heavy = "keras", "tensorflow", "jax", "torch", "onnx", "onnxruntime", "tf2onnx", "matplotlib", "jinja2"
    program = f"import sys\nfor code in {CLEAN}:\n    exec(code)\n    assert not set({heavy}) & set(sys.modules), code"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
