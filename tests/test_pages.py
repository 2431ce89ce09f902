"""Everything that stands on a page as code runs as it stands, from the first block to the last."""

import doctest
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from keras_pe.export import assert_parity
from keras_pe.export.runtimes.external.hosts import find_package
from tests.export.runtimes.external.present import need, need_package
from tests.page_commands import run_command, run_line
from tests.pages import PAGES, blocks, needs, words
from tests.source_tree import ROOT

# Pages whose code another test runs, because it needs more than a folder.
ELSEWHERE = {
    "docs/engines.md": "tests/export/parity/dataset/test_recipes.py",
    "docs/how-to/own-runtime.md": "tests/export/runtimes/test_of_others.py",
    "docs/upstream.md": "tests/test_upstream.py",
}
LANGUAGES = {"python", "pycon", "ipython3", "console", "sh", "yaml", "js"}  # languages that run here
SHOWN = {"text"}  # printed by the code before
MADE = {"{eval-rst}", "{raw}", "{toctree}"}  # made of docstrings, pictures and pages
FILES = {"toml"}  # files of packages that the tests of ELSEWHERE make
_REQUEST = re.compile(r"\.\. auto\w+:: \S+|\s*:[\w-]+:.*|[\w./-]*\*?|")
HERE = [page for page in PAGES if page.relative_to(ROOT).as_posix() not in ELSEWHERE]
RUNNING = [page for page in HERE if any(block.language in LANGUAGES for block in blocks(page.read_text("utf-8")))]


def session(code: str, names: dict[str, Any]) -> None:
    """Runs examples that say what they print."""
    examples = doctest.DocTestParser().get_doctest(code, names, "page", None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    said: list[str] = []
    runner.run(examples, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)
    names.update(examples.globs)


def workflow(code: str) -> None:
    """Runs the steps of a workflow that are commands."""
    (job,) = yaml.safe_load(code)["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands
    for command in commands:
        run_line(command)


def node(code: str, folder: Path) -> None:
    """Runs a module of JavaScript beside the files of a page."""
    package = find_package("onnxruntime-node")
    assert package is not None
    (folder / "page.mjs").write_text(code)
    (folder / "node_modules").symlink_to(package.parent)
    subprocess.run(["node", "page.mjs"], cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # a page shows a user's code, whose warnings are not errors
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if needed := needs(page):
        kind, name = needed
        (need if kind == "runtime" else need_package)(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names: dict[str, Any] = {"__name__": "page"}
    for language, code in blocks(page.read_text("utf-8")):
        printed = capsys.readouterr().out
        if language == "text" and page.name != "README.md":  # its text is that of another page
            assert words(code) == words(printed)
        elif language in ("python", "ipython3"):
            exec(compile(code, str(page), "exec"), names)
        elif language == "pycon":
            session(code, names)
        elif language == "console":
            for line in code.splitlines():
                if line.startswith("$ "):
                    run_command(line.removeprefix("$ "))
        elif language == "sh" and page.name != "README.md":  # .ci/run reads and runs its commands
            for line in code.splitlines():
                run_line(line)
        elif language == "yaml":
            workflow(code)
        elif language == "js":
            node(code, tmp_path)
    for name in [name for name in names if name.startswith("test_")]:
        names[name](assert_parity)  # the fixture is the same function


def test_every_block_runs_or_shows_what_was_printed_or_asks_for_what_is_made_of_code() -> None:
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        for language, code in blocks(page.read_text("utf-8")):
            assert language in LANGUAGES | SHOWN | MADE | (FILES if name in ELSEWHERE else set()), name
            if language in MADE:
                assert [line for line in code.splitlines() if not _REQUEST.fullmatch(line)] == [], name
    assert len(RUNNING) > 30


def test_every_page_whose_code_runs_elsewhere_is_named_there() -> None:
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text()
