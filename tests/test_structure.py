"""The structure: imports between packages, contents of a wheel, and the cost of an import."""

import ast
import configparser
import importlib
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.source_tree import ROOT, imports, modules, nodes, own_imports, packages, siblings


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns nodes of which each leads to the next, and the last to the first. An empty list means no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.slow
def test_no_file_imports_itself_by_way_of_others() -> None:
    assert len(modules()) > 40
    assert circle({name: own_imports(path) for name, path in modules().items()}) == []


@pytest.mark.slow
def test_the_files_and_folders_of_a_folder_import_in_one_direction() -> None:
    circles = {package: circle(siblings(package)) for package in packages()}
    assert {package: names for package, names in circles.items() if names} == {}


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


def test_imports_are_absolute_and_name_what_they_import() -> None:
    def is_fault(node: ast.AST) -> bool:
        return isinstance(node, ast.ImportFrom) and (node.level > 0 or node.names[0].name == "*")

    assert not find_faults(is_fault)


def importers(*packages: str) -> set[str]:
    """Returns the modules that import one of these packages, or a name in one."""
    return {
        name
        for name, path in modules().items()
        if any(f"{imported}.".startswith(tuple(f"{package}." for package in packages)) for imported in imports(path))
    }


def test_runtimes_outside_this_python_use_what_a_stranger_may_use() -> None:
    names = ("keras_pe.export", "keras_pe.export.records", "keras_pe.export.runtimes")
    public = {name: importlib.import_module(name).__all__ for name in names}
    edges = [f"keras_pe.export.runtimes.{name}" for name in ("external", "model_server")]
    for edge in edges:
        for name, path in modules().items():
            for node in nodes(path) if f"{name}.".startswith(f"{edge}.") else ():
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("keras_pe"):
                    own = f"{node.module}.".startswith(f"{edge}.")
                    assert own or {alias.name for alias in node.names} <= {*public.get(str(node.module), ())}, name
    assert not [name for name in importers(*edges) if not name.startswith(tuple(edges))]


def test_the_name_of_a_runtime_is_taken_apart_in_one_module() -> None:
    methods = ("partition", "rpartition", "split", "find", "index", "removesuffix", "startswith")

    def takes_apart(node: ast.AST) -> bool:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods):
            return False
        return any(isinstance(each, ast.Constant) and each.value in ("[", "]", "@") for each in node.args[:1])

    assert not find_faults(takes_apart, but="keras_pe.export.runtimes.runtime")
    assert find_faults(takes_apart)


def test_one_file_calls_tf2onnx() -> None:
    onnx = "keras_pe.export.onnx"
    assert importers("tf2onnx") == {
        f"{onnx}.{name}" for name in ("tf2onnx_calls", "tf2onnx_repairs", "handlers.handler_registry")
    }
    assert importers(f"{onnx}.tf2onnx_repairs") == {f"{onnx}.tf2onnx_calls"}


# Modules that may use private names, and the package of these names.
INTERNALS = {
    "keras_pe.export.model.watch.keras_internals": "keras",
    "keras_pe.export.graph.tensorflow_internals": "tensorflow",
    "keras_pe.export.onnx.tf2onnx_calls": "tf2onnx",
    "keras_pe.export.decoders.tokenizer_files": "keras_hub",
    "keras_pe.export.onnx.tf2onnx_repairs": "tf2onnx",
    "keras_pe.export.processes.foreign_code": "os",  # os._exit, which other code may call
    "keras_pe.cli.standard_streams": "the standard library",  # the standard streams and the end of the process
}


def test_private_names_of_keras_and_tensorflow_stand_in_one_module_each() -> None:
    assert importers("keras.src") == {"keras_pe.export.model.watch.keras_internals"}
    private = ("tensorflow.python", "tensorflow.core", "tensorflow.compiler", "tensorflow.lite")
    assert importers(*private) == {"keras_pe.export.graph.tensorflow_internals"}

    def is_private(node: ast.AST) -> bool:
        if not (isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")):
            return False
        return ast.unparse(node.value) not in ("self", "cls", "super()")

    assert not find_faults(is_private, but=tuple(INTERNALS))


def test_nothing_of_another_package_is_replaced_outside_the_doors() -> None:
    assert not importers("unittest")
    replaced = []
    for name, path in modules().items():
        bound = {
            (alias.asname or alias.name).partition(".")[0]
            for node in nodes(path)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                is_fault = ast.unparse(node.value).partition(".")[0] in bound
            else:
                is_fault = calls(node, "setattr", "delattr") and ast.unparse(node.args[0]) != "self"
            if is_fault and name not in INTERNALS:
                replaced.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    assert not replaced


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


def test_parity_and_the_formats_know_nothing_of_each_other_and_the_public_exporters_join_them() -> None:
    joins, pipeline = "keras_pe.export.exporters", "keras_pe.export.pipeline"
    formats = tuple(f"keras_pe.export.{name}" for name in ("onnx", "formats", "graph.trace_function"))
    judges = ("keras_pe.export.parity", "keras_pe.export.runtimes")
    for name, path in modules().items():
        if name.startswith(judges):
            assert not {each for each in own_imports(path) if each.startswith((*formats, joins))}, name
        if name.startswith((*formats, pipeline)):
            assert not {each for each in own_imports(path) if each.startswith((judges[0], joins))}, name
    # Nor does a format find the check by its name in a text.
    assert not [
        each for name in (*formats, pipeline) for each in find_faults(is_text_of("keras_pe.export.parity"), inside=name)
    ]
    assert {each for each in own_imports(modules()[joins]) if each.startswith(judges)} == {
        f"{judges[0]}.export_explanation"
    }


def is_text_of(start: str) -> Callable[[ast.AST], bool]:
    """Returns whether a node is a text that begins so."""
    return lambda node: isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(start)


def test_only_runtimes_are_described_as_runtimes() -> None:
    described = find_faults(lambda node: calls(node, "RuntimeSpec"), but="keras_pe.export.runtimes")
    assert described == []


def test_connectors_use_the_public_interface_only() -> None:
    public = set(importlib.import_module("keras_pe.export").__all__)
    connectors = {name: path for name, path in modules().items() if name.startswith("keras_pe.export.connectors.")}
    assert {name.rpartition(".")[2] for name in connectors} >= {"batches", "dask", "hugging_face", "ray", "tfrecord"}
    for name, path in connectors.items():
        for node in nodes(path):
            taken = {alias.name for alias in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else set()
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keras_pe"):
                assert (node.module, taken - public) == ("keras_pe.export", set()), name
            else:
                assert not [each for each in taken if each.startswith("keras_pe")], name
    # Nobody imports them: they are found as those of another package are.
    assert importers("keras_pe.export.connectors") == set()


def test_only_the_command_line_prints_or_exits() -> None:
    # A bundle holds its script as a program of its own.
    but = ("keras_pe.cli", "keras_pe.__main__", "keras_pe.export.parity.bundle_script")
    assert not find_faults(lambda node: calls(node, "print", "exit", "sys.exit", "quit"), but=but)


def test_nothing_opens_a_browser() -> None:
    assert importers("webbrowser") == set()
    assert not find_faults(lambda node: calls(node, "click.launch", "os.startfile", "webbrowser.open"))


def test_the_package_list_is_what_is_on_disk() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    assert sorted(listed) == sorted(packages())


def test_the_export_package_is_a_link_to_the_top_level_folder() -> None:
    link = ROOT / "keras_pe" / "export"
    assert link.is_symlink()
    assert link.readlink() == Path("../export")


@pytest.mark.slow
def test_a_wheel_holds_every_module_once_and_a_source_distribution_no_part_of_the_tests(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "build",
        "--sdist",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path / "dist"),
    ]
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
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        packed = [name.partition("/")[2] for name in opened.getnames()]
    assert {"README.md", "LICENSE", "export/__init__.py"} <= set(packed)
    assert [name for name in packed if name.startswith("tests")] == []


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
