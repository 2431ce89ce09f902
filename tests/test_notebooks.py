"""The notebooks are stored with their outputs, check what they draw, and run from the first cell to the last."""

import ast
import os
from pathlib import Path

import nbformat
import pytest

from tests.test_docs import ROOT, script

runner = script("run_notebooks")
NOTEBOOKS = runner.NOTEBOOKS
read = runner.read

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def sections(path: Path) -> list[tuple[str, str]]:
    """Returns each section's heading and its code."""
    found: list[tuple[str, str]] = []
    for cell in read(path).cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            found.append((cell.source.splitlines()[0], ""))
        elif cell.cell_type == "code":
            heading, code = found.pop()
            found.append((heading, f"{code}\n{cell.source}"))
    return found


def test_there_are_notebooks() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{number:02d}" for number in range(1, len(NOTEBOOKS) + 1)]
    assert NOTEBOOKS


@every_notebook
def test_a_notebook_is_stored_with_the_outputs_of_its_own_source_and_without_traces_of_a_machine(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "source_sha256": runner.source_hash(notebook),  # or run python docs/run_notebooks.py
    }
    assert [cell.id for cell in notebook.cells if cell.metadata] == []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert [output for output in outputs if "image/png" in output.get("data", {})]
    assert path.stat().st_size < 600_000
    assert "/tmp/" not in path.read_text()


@every_notebook
def test_a_notebook_begins_with_a_title_and_what_it_shows(path: Path) -> None:
    first, *others = read(path).cells
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert not first.source.startswith("# #")
    assert len(first.source.splitlines()) > 2
    assert [cell.id for cell in others if cell.cell_type == "markdown" and cell.source.startswith("# ")] == []


@every_notebook
def test_a_section_that_draws_a_figure_also_asserts_what_it_shows(path: Path) -> None:
    drawing = [(heading, code) for heading, code in sections(path) if "plt.show()" in code]
    assert drawing
    unchecked = [
        heading
        for heading, code in drawing
        if not any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(code)))
    ]
    assert unchecked == []


@pytest.mark.exhaustive  # the site is built of notebooks that are run
@every_notebook
def test_a_notebook_runs_to_its_end(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel finds the package in this repository without an install, and nothing of the user's: neither startup
    # files nor another backend.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    executed = runner.execute(read(path), tmp_path)
    outputs = [output for cell in executed.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output for output in outputs if "image/png" in output.get("data", {})], "no figure was drawn"
    assert [output.text for output in outputs if "Warning: " in output.get("text", "")] == []
