"""The site is built without a warning, a browser shows it, and its search finds the page that answers."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from keras_pe.export.runtimes.external.hosts import find_chromium, find_package
from tests.export.parity.presentation.samples import ALL
from tests.export.runtimes.external.present import leave_out
from tests.source_tree import ROOT

QUESTIONS = {
    question: page
    for page, questions in tomllib.loads((ROOT / "tests" / "site_questions.toml").read_text()).items()
    for question in questions
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the site that CI has built. Elsewhere builds the site, but for running its notebooks."""
    if built := os.environ.get("KERAS_PE_TEST_SITE"):
        return Path(built)
    pytest.importorskip("myst_nb")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-D", "nb_execution_mode=off", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_how_to_has_a_question_that_leads_to_it() -> None:
    pages = {f"how-to/{path.stem}" for path in (ROOT / "docs" / "how-to").glob("*.md")}
    assert pages - {"how-to/index"} <= set(QUESTIONS.values())


@pytest.mark.slow
def test_the_search_finds_the_page_of_each_question_among_the_first_three(site: Path) -> None:
    if shutil.which("node") is None:
        leave_out("the site's search runs in Node: apt-get install nodejs")
    command = ["node", str(ROOT / "tests" / "site_search.mjs"), str(site), *QUESTIONS]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    wrong = {
        question: pages[:4]
        for (question, page), pages in zip(QUESTIONS.items(), found, strict=True)
        if page not in pages[:3]
    }
    assert wrong == {}


def look(pages: Iterable[Path], pictures: str = "") -> list[str]:
    """Returns what a browser finds wrong with pages; the test is skipped without one."""
    chromium, axe, driver = find_chromium(), find_package("axe-core"), find_package("puppeteer-core")
    if chromium is None or axe is None or driver is None or shutil.which("node") is None:
        leave_out("to look at pages: apt-get install chromium nodejs, npm install axe-core puppeteer-core")
    command = ["node", str(ROOT / "tests" / "look.mjs"), chromium, str(axe.parent), pictures, *map(str, pages)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout
    return list(json.loads(found))


@pytest.mark.slow
def test_a_browser_finds_nothing_wrong_with_the_pages_that_differ_in_form(site: Path) -> None:
    names = ("index", "search", "gallery", "how-to/failing-check", "reference/conventions", "reference/check")
    assert look(site / f"{name}.html" for name in names) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_a_browser_finds_nothing_wrong_with_any_page(site: Path) -> None:
    assert look(path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts) == []


@pytest.mark.slow
def test_a_browser_finds_nothing_wrong_with_a_report(tmp_path: Path) -> None:
    for name, report in ALL.items():
        report.save(tmp_path / f"{name}.html")
    assert look(sorted(tmp_path.glob("*.html"))) == []
