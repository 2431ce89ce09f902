"""Everything that stands on a page as code runs as it stands, from the first block to the last."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from keras_pe.cli import main
from keras_pe.export import assert_parity
from keras_pe.export.runtimes.external.requirements import find_package
from tests.export.runtimes.external.present import need
from tests.pages import PAGES, blocks, needs
from tests.source_tree import ROOT

# Pages whose code another test runs, because it needs more than a folder.
ELSEWHERE = {
    "docs/engines.md": "tests/export/parity/dataset/test_recipes.py",
    "docs/how-to/own-runtime.md": "tests/export/runtimes/test_of_others.py",
    "docs/upstream.md": "tests/test_upstream.py",
}
LANGUAGES = {"python", "ipython3", "console", "js"}  # which run here
# Which nothing runs: what installs or needs a machine of its own, what is shown, and the words of Sphinx.
SHOWN = {"sh", "text", "toml", "yaml"}
HERE = [page for page in PAGES if page.relative_to(ROOT).as_posix() not in ELSEWHERE]
RUNNING = [page for page in HERE if any(block.language in LANGUAGES for block in blocks(page.read_text("utf-8")))]


def command_line(line: str) -> None:
    """Runs a command of this package in this process, which has imported Keras already."""
    program, *arguments = shlex.split(line)
    assert program == "keras-pe", line
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, f"{line}\n{done.output}"


def node(code: str, folder: Path) -> None:
    """Runs a module of JavaScript beside the files of a page."""
    package = find_package("onnxruntime-node")
    assert package is not None
    (folder / "page.mjs").write_text(code)
    (folder / "node_modules").symlink_to(package.parent)
    subprocess.run(["node", "page.mjs"], cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of others: a page shows what a user runs, whose warnings are no errors
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if runtime := needs(page):
        need(runtime)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names: dict[str, Any] = {"__name__": "page"}
    for language, code in blocks(page.read_text("utf-8")):
        if language in ("python", "ipython3"):
            exec(compile(code, str(page), "exec"), names)
        elif language == "console":
            for line in code.splitlines():
                if line.startswith("$ "):
                    command_line(line.removeprefix("$ "))
        elif language == "js":
            node(code, tmp_path)
    for name in [name for name in names if name.startswith("test_")]:
        names[name](assert_parity)  # which is what the fixture is


def test_every_block_is_of_a_language_that_runs_or_is_only_shown() -> None:
    found = {(page.name, block.language) for page in PAGES for block in blocks(page.read_text("utf-8"))}
    assert {each for each in found if each[1] not in LANGUAGES | SHOWN} == set()
    assert len(RUNNING) > 30


def test_every_page_whose_code_runs_elsewhere_is_named_there() -> None:
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text()


def test_every_extra_that_a_page_installs_is_there() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named = {
        extra
        for page in PAGES
        for found in re.findall(r"(?:keras-pe|\.)\[([\w,]+)\]", page.read_text("utf-8"))
        for extra in found.split(",")
    }
    assert named <= extras
    assert named
