"""The structure: a rule about texts that no linter has, and the content of a wheel.

pyproject.toml has the rules about imports, private names and prints, for import-linter and ruff.
"""

import ast
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.source_tree import ROOT, modules

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


@pytest.mark.slow
def test_no_logic_reads_a_sentence() -> None:
    nodes = [(name, node) for name, path in modules().items() for node in ast.walk(ast.parse(path.read_text()))]
    assert [(name, ast.unparse(node)) for name, node in nodes if reads_a_sentence(node)] == []


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
